//! A bucket is read from a file and written again.

use selection::ketama::Bucket;

fn main() {
    let bucket: Bucket = serde_json::from_str(r#"{"addr":"10.0.0.1:80","weight":3}"#).unwrap();
    assert_eq!(bucket, Bucket::new("10.0.0.1:80".parse().unwrap(), 3));
    let written = serde_json::to_string(&bucket).unwrap();
    assert_eq!(serde_json::from_str::<Bucket>(&written).unwrap(), bucket);
}
