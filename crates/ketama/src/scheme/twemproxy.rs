//! twemproxy: `nc_ketama.c`, `ketama_update`; `nc_server.c`, `server_pool_hash`.
//!
//! The points are libmemcached's weighted ones (the same `float` arithmetic, always MD5); `hash:`
//! is for keys only. What `auto_eject_hosts` does to a ring is a fresh build without the server:
//! the shares of all others change with it.

use core::cmp::Ordering;

use super::KeyHash;
use crate::Bucket;

/// The name of a server: its alias, or the address without the port 11211.
///
/// An alias is a text given with [`Bucket::from_text`] or [`Bucket::with_text`] that is not an
/// address. Of a unix socket the path is the name.
pub(super) fn name(bucket: &Bucket) -> &str {
    match bucket.host_and_port() {
        (host, "11211") => host,
        (path, "") => path,
        _ => bucket.text(),
    }
}

/// The order in which twemproxy holds its servers: shorter names first, then by bytes.
pub(super) fn compare(a: &Bucket, b: &Bucket) -> Ordering {
    let (a, b) = (name(a), name(b));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// The hash of the tagged part of `key`; an empty key is at 0 whatever the hash.
pub(super) fn hash_key(key: &[u8], tag: Option<[u8; 2]>, hash: KeyHash) -> u32 {
    match tag.and_then(|tag| tagged(key, tag)).unwrap_or(key) {
        [] => 0,
        part => hash.hash(part),
    }
}

/// What stands between the first opening byte and the first closing byte after it, unless empty.
fn tagged(key: &[u8], [open, close]: [u8; 2]) -> Option<&[u8]> {
    let start = key.iter().position(|&byte| byte == open)? + 1;
    let rest = key.get(start..)?;
    let length = rest.iter().position(|&byte| byte == close)?;
    rest.get(..length).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_leave_out_the_default_port() {
        for (text, expected) in [
            ("127.0.1.1:11211", "127.0.1.1"),
            ("127.0.1.1:11212", "127.0.1.1:11212"),
            ("alias", "alias"),
            ("unix:/run/a.sock", "/run/a.sock"),
        ] {
            assert_eq!(name(&Bucket::from_text(text, 1)), expected);
        }
    }

    #[test]
    fn servers_are_held_by_length_of_name_first() {
        let bucket = |text: &str| Bucket::from_text(text, 1);
        assert_eq!(compare(&bucket("z"), &bucket("aa")), Ordering::Less);
        assert_eq!(compare(&bucket("b"), &bucket("a")), Ordering::Greater);
    }

    #[test]
    fn tag_is_the_first_pair_around_something() {
        let braces = |key: &'static str| tagged(key.as_bytes(), *b"{}");
        for (key, part) in [
            ("user:{1000}:name", Some("1000")),
            ("{{x}}", Some("{x")),
            ("a}b{c}d{e}", Some("c")),
            ("{}x{y}", None),
            ("no-close-{1", None),
            ("}{", None),
            ("", None),
        ] {
            assert_eq!(braces(key), part.map(str::as_bytes), "{key}");
        }
        assert_eq!(tagged(b"$tag$rest$", *b"$$"), Some(&b"tag"[..]));
        assert_eq!(tagged(b"$$x$", *b"$$"), None);
    }

    #[test]
    fn empty_key_is_at_zero() {
        assert_eq!(hash_key(b"", None, KeyHash::Md5), 0);
        assert_ne!(KeyHash::Md5.hash(b""), 0);
    }
}
