//! Shares, differences and digests, against figures from an independent program (Python).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ketama::{Bucket, Continuum};

/// Buckets `10.0.0.I:80` for pairs of I and weight.
fn ring(pool: &[(u8, u32)]) -> Continuum {
    let buckets: Vec<_> = pool
        .iter()
        .map(|(i, weight)| Bucket::from_text(format!("10.0.0.{i}:80"), *weight))
        .collect();
    Continuum::new(&buckets).unwrap()
}

fn four() -> Continuum {
    ring(&[(1, 1), (2, 1), (3, 1), (4, 1)])
}

/// The differences as (last digit of the old owner, of the new one, length); 0 = none.
fn moves(before: &Continuum, after: &Continuum) -> Vec<(u8, u8, u64)> {
    let digit = |text: Option<&str>| text.map_or(0, |text| text.as_bytes()["10.0.0.".len()] - b'0');
    before
        .diff(after)
        .iter()
        .map(|step| (digit(step.from), digit(step.to), step.length))
        .collect()
}

#[test]
fn shares_are_exact_and_add_up() {
    let expected = [1_043_649_059, 997_511_577, 1_050_166_063, 1_203_640_597];
    assert_eq!(four().shares(), expected);
    assert_eq!(expected.iter().sum::<u64>(), Continuum::CIRCLE);
    let weighted = ring(&[(1, 1), (2, 2), (3, 3), (4, 4)]);
    let expected = [460_365_850, 872_945_130, 1_287_216_001, 1_674_440_315];
    assert_eq!(weighted.shares(), expected);
    assert_eq!([0, 1, 2, 3, 4].map(|index| weighted.share(index)), {
        let [a, b, c, d] = expected;
        [a, b, c, d, 0]
    });
    assert_eq!(ring(&[(1, 0), (2, 1)]).shares(), [0, Continuum::CIRCLE]);
    assert_eq!(ring(&[(1, 0)]).shares(), [0]);
}

#[test]
fn adding_a_bucket_moves_its_share_to_it() {
    let five = ring(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]);
    let expected = [
        (1, 5, 221_330_890),
        (2, 5, 224_368_326),
        (3, 5, 161_621_918),
        (4, 5, 293_227_022),
    ];
    assert_eq!(moves(&four(), &five), expected);
    let moved: u64 = expected.iter().map(|&(_, _, length)| length).sum();
    assert_eq!(moved, five.share(4));
}

#[test]
fn removing_a_bucket_moves_its_share_away() {
    let three = ring(&[(1, 1), (2, 1), (4, 1)]);
    let expected = [
        (3, 1, 326_401_723),
        (3, 2, 348_509_722),
        (3, 4, 375_254_618),
    ];
    assert_eq!(moves(&four(), &three), expected);
}

#[test]
fn buckets_are_matched_by_text_and_not_by_number() {
    let turned = ring(&[(4, 1), (3, 1), (1, 1), (2, 1)]);
    assert_eq!(moves(&four(), &turned), []);
    assert_eq!(moves(&four(), &four()), []);
}

#[test]
fn raising_weights_moves_keys_to_the_raised_only() {
    let weighted = ring(&[(1, 1), (2, 2), (3, 3), (4, 4)]);
    let expected = [
        (1, 2, 101_875_945),
        (1, 3, 202_859_375),
        (1, 4, 278_547_889),
        (2, 3, 243_205_513),
        (2, 4, 246_685_966),
        (3, 2, 114_747_955),
        (3, 4, 321_130_196),
        (4, 2, 148_701_132),
        (4, 3, 226_863_201),
    ];
    assert_eq!(moves(&four(), &weighted), expected);
}

#[test]
fn an_empty_ring_owns_nothing() {
    let (empty, one) = (ring(&[]), ring(&[(1, 1)]));
    assert_eq!(moves(&empty, &one), [(0, 1, Continuum::CIRCLE)]);
    assert_eq!(moves(&one, &empty), [(1, 0, Continuum::CIRCLE)]);
    assert_eq!(moves(&empty, &empty), []);
}

#[test]
fn every_key_moves_as_the_difference_says() {
    let after = ring(&[(1, 1), (2, 3), (5, 1)]);
    let before = four();
    let moves = before.diff(&after);
    let mut sampled = 0u64;
    for key in (0..20_000).map(|i| format!("key-{i}")) {
        let from = before.node(key.as_bytes()).map(Bucket::text);
        let to = after.node(key.as_bytes()).map(Bucket::text);
        let listed = moves.iter().any(|step| (step.from, step.to) == (from, to));
        assert_eq!(listed, from != to, "{key}");
        sampled += u64::from(from != to);
    }
    // The sample is within five standard deviations of the exact fraction.
    let exact = moves.iter().map(|step| step.length).sum::<u64>() * 20_000 / Continuum::CIRCLE;
    assert!(sampled.abs_diff(exact) < 5 * 71, "{sampled} {exact}");
}

#[test]
fn fingerprints_are_those_of_the_definition() {
    assert_eq!(four().fingerprint(), 0xd7a0_d84b_a62b_4185);
    // The order of the list counts only where it decides a tie; buckets without points never do.
    let turned = ring(&[(9, 0), (4, 1), (3, 1), (1, 1), (2, 1)]);
    assert_eq!(turned.fingerprint(), four().fingerprint());
    let tied = |texts: [&str; 2]| {
        let buckets = texts.map(|text| Bucket::from_text(text, 1));
        Continuum::new(&buckets).unwrap().fingerprint()
    };
    let (first, second) = ("203.0.113.210:80", "203.0.113.215:80");
    assert_eq!(tied([first, second]), 0xa73d_b8d8_4fd5_85f2);
    assert_eq!(tied([second, first]), 0x8613_9047_c6d2_d608);
}

#[cfg(feature = "v2")]
#[test]
fn the_layout_is_part_of_the_fingerprint() {
    let buckets = [("192.0.2.1:80", 2), ("192.0.2.2:80", 1)]
        .map(|(text, weight)| Bucket::from_text(text, weight));
    let v2 = |multiple: u32| {
        let point_multiple = multiple.try_into().unwrap();
        let version = ketama::Version::V2 { point_multiple };
        let config = ketama::RingConfig::new().version(version);
        Continuum::with_config(&buckets, &config)
            .unwrap()
            .fingerprint()
    };
    assert_eq!(v2(10), 0x9130_2714_d486_4033);
    let v1 = Continuum::new(&buckets).unwrap().fingerprint();
    assert_eq!(v1, 0x4581_3c40_92c4_4354);
    assert_ne!(v2(160), v1);
}

#[test]
fn the_summary_names_the_extremes() {
    let text = four().to_string();
    assert_eq!(
        text,
        "4 buckets, 640 points; share to weight 0.929 (10.0.0.2:80) to 1.120 (10.0.0.4:80)"
    );
    let weighted = ring(&[(1, 1), (2, 2), (3, 3), (4, 4), (5, 0)]).to_string();
    assert_eq!(
        weighted,
        "5 buckets, 1600 points; share to weight 0.974 (10.0.0.4:80) to 1.071 (10.0.0.1:80)"
    );
    assert_eq!(ring(&[(1, 0)]).to_string(), "1 buckets, 0 points");
}

/// The spread that the crate's documentation promises.
#[test]
fn the_documented_spread_holds() {
    let extremes = |len: u8, weight: u32| {
        let buckets: Vec<_> = (1..=len)
            .map(|i| Bucket::from_text(format!("192.0.2.{i}:80"), weight))
            .collect();
        let shares = Continuum::new(&buckets).unwrap().shares();
        let percent = |share: &u64| share * u64::from(len) * 100 / Continuum::CIRCLE;
        (
            percent(shares.iter().min().unwrap()),
            percent(shares.iter().max().unwrap()),
        )
    };
    assert_eq!(extremes(2, 1), (90, 109));
    assert_eq!(extremes(3, 1), (98, 101));
    assert_eq!(extremes(5, 1), (93, 110));
    assert_eq!(extremes(10, 1), (88, 122));
    assert_eq!(extremes(50, 1), (83, 118));
    assert_eq!(extremes(3, 100), (99, 100));
}
