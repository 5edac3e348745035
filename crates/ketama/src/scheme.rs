//! The rings of memcached clients, twemproxy and bRPC.
//!
//! They share nginx's idea and nothing else: other strings, other hashes, other numbers of points.
//! [`Scheme`] says which; what differs is in one file per family. Each file is checked against
//! recorded answers of the real program; where the program has a bug, the bug is here, under its
//! name.
//!
//! What they have in common is here: a bucket of the pool stands for some strings `NAME-0`,
//! `NAME-1`, ...; each string is hashed to one point or to four; the points are sorted, and
//! several on one place all stay (none of these programs removes them), the first in the
//! program's own server order in front.

mod brpc;
mod key_hash;
mod libketama;
mod libmemcached;
mod twemproxy;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write;

pub use key_hash::KeyHash;
use key_hash::md5_words;
pub use libmemcached::PointNames;

use crate::layout::Layout;
use crate::ring::{Point, Ring, Wide};
use crate::{Bucket, BuildError, Continuum, RingConfig};

/// Whose ring is built.
///
/// | scheme | name of a server in the hashed string | points of a server | weights | default key hash |
/// |---|---|---|---|---|
/// | [`LibKetama`](Self::LibKetama) | the text as written, port always | 4 x its share of 40 x servers, rounded down | honoured | `Md5` |
/// | [`LibmemcachedWeighted`](Self::LibmemcachedWeighted) | `host` for port 11211, else `host:port` | as above | honoured | `Md5` |
/// | [`LibmemcachedPlain`](Self::LibmemcachedPlain) | the same | 100 | **ignored** | the point hash |
/// | [`Twemproxy`](Self::Twemproxy) | the same, or the alias | as libmemcached | honoured | `Fnv1a64` |
/// | [`BrpcMurmurHash`](Self::BrpcMurmurHash) | the endpoint | `replicas` | **ignored** | `Murmur3` |
/// | [`BrpcMd5`](Self::BrpcMd5) | the endpoint | `replicas` | **ignored** | `Md5` |
/// | [`BrpcKetama`](Self::BrpcKetama) | the endpoint | `replicas` | **ignored** | `Md5` |
///
/// A bucket of weight 0 is drained in every scheme, as everywhere in this crate: it has no points
/// and does not count as a server. (For libmemcached itself a weight of 0 means 1; the others
/// refuse it.)
///
/// # Weighted rings lose points and are not monotone
///
/// In the three weighted schemes the number of points of a server depends on the whole pool and is
/// rounded down: with unequal weights the ring has fewer than 160 points per server, and a server
/// whose share of the weight is below 1 / (40 x servers) has **no point at all** and gets no key.
/// Adding or removing one server changes the number of points of the others, so keys also move
/// between servers that were not touched. The rings of [`Version`](crate::Version) do neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(
    feature = "serde",
    serde(rename_all = "snake_case", deny_unknown_fields)
)]
#[non_exhaustive]
pub enum Scheme {
    /// RJ's original C library (last.fm), `ketama.c`, `ketama_create_continuum`.
    #[cfg_attr(feature = "serde", serde(rename = "libketama"))]
    LibKetama,
    /// libmemcached 1.1 with `MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED`, or with any consistent
    /// distribution once a server of weight > 1 was added; `update_continuum` in `hosts.cc`.
    ///
    /// This is the ring that most memcached clients mean by "ketama". The key hash is set apart
    /// from it: `KETAMA_WEIGHTED` makes it MD5, adding a weighted server leaves it as it was
    /// ([`KeyHash::OneAtATime`] by default).
    LibmemcachedWeighted {
        /// How a server is written in the hashed string.
        #[cfg_attr(feature = "serde", serde(default))]
        names: PointNames,
    },
    /// libmemcached 1.1 with `MEMCACHED_BEHAVIOR_KETAMA` or the distribution `consistent`: 100
    /// points per server, one hash each.
    ///
    /// The point hash is the `MEMCACHED_BEHAVIOR_HASH` in force when the ring was built
    /// ([`KeyHash::OneAtATime`] by default); a hash set later is used for keys only.
    /// `MEMCACHED_BEHAVIOR_KETAMA_HASH` has no effect.
    LibmemcachedPlain {
        /// How a server is written in the hashed string.
        names: PointNames,
        /// The hash of the points.
        point_hash: KeyHash,
    },
    /// twemproxy (nutcracker) 0.5 with `distribution: ketama`; `nc_ketama.c`, `ketama_update`.
    Twemproxy {
        /// `hash_tag`: the opening and the closing byte of the part of a key that is hashed. The
        /// whole key is hashed if the two do not stand around at least one byte.
        hash_tag: Option<[u8; 2]>,
    },
    /// bRPC 1.17 `c_murmurhash`: MurmurHash3 of each string.
    #[cfg_attr(feature = "serde", serde(rename = "brpc_murmurhash"))]
    BrpcMurmurHash {
        /// Points per server; 100 by default in bRPC. Must be positive.
        replicas: u32,
    },
    /// bRPC 1.17 `c_md5`: the first four digest bytes of each string.
    BrpcMd5 {
        /// Points per server; 100 by default in bRPC. Must be positive.
        replicas: u32,
    },
    /// bRPC 1.17 `c_ketama`: four points from the digest of each string.
    BrpcKetama {
        /// Points per server; 100 by default in bRPC. Must be a positive multiple of 4.
        ///
        /// bRPC itself logs a failed check for 102 and builds 100 points.
        replicas: u32,
    },
}

/// How to build a ring of another program, and how to hash keys for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SchemeConfig {
    /// Whose ring.
    pub scheme: Scheme,
    /// The hash of keys. Callers who bring a hash, such as bRPC's request code, use
    /// [`Continuum::node_for_hash`] and need none.
    pub key_hash: KeyHash,
    /// The most points the ring may have; 2^26 by default. Checked before anything is allocated.
    pub max_points: u64,
}

impl SchemeConfig {
    /// The ring of `scheme`, with the key hash that the program uses by default and the limit of
    /// [`RingConfig`](crate::RingConfig).
    #[must_use]
    pub fn new(scheme: Scheme) -> Self {
        Self {
            scheme,
            key_hash: match scheme {
                Scheme::LibmemcachedPlain { point_hash, .. } => point_hash,
                Scheme::Twemproxy { .. } => KeyHash::Fnv1a64,
                Scheme::BrpcMurmurHash { .. } => KeyHash::Murmur3,
                _ => KeyHash::Md5,
            },
            max_points: RingConfig::new().max_points,
        }
    }

    /// Sets the hash of keys.
    #[must_use]
    pub fn key_hash(self, key_hash: KeyHash) -> Self {
        Self { key_hash, ..self }
    }

    /// Sets the most points the ring may have.
    #[must_use]
    pub fn max_points(self, max_points: u64) -> Self {
        Self { max_points, ..self }
    }

    /// Where `key` falls on the circle.
    ///
    /// A function of its own, out of the way of the lookup of nginx's ring, which asks first
    /// whether there is a scheme.
    #[cold]
    #[inline(never)]
    pub(crate) fn hash(&self, key: &[u8]) -> u32 {
        match self.scheme {
            Scheme::Twemproxy { hash_tag } => twemproxy::hash_key(key, hash_tag, self.key_hash),
            _ => self.key_hash.hash(key),
        }
    }
}

#[cfg_attr(docsrs, doc(cfg(feature = "schemes")))]
impl Continuum {
    /// The ring over `buckets` that another program builds.
    ///
    /// Everything that takes a key hashes it with [`SchemeConfig::key_hash`]. All lookups take the
    /// first point at or after the hash and wrap to the first point, as all these programs do.
    ///
    /// ```
    /// use ketama::{Bucket, Continuum, Scheme, SchemeConfig};
    ///
    /// let ring = Continuum::with_scheme(
    ///     &[
    ///         Bucket::new("10.0.0.1:8000".parse()?, 1),
    ///         Bucket::new("10.0.0.2:8000".parse()?, 1),
    ///         Bucket::new("10.0.0.3:8000".parse()?, 1),
    ///         Bucket::new("10.0.0.4:8000".parse()?, 1),
    ///     ],
    ///     &SchemeConfig::new(Scheme::BrpcMurmurHash { replicas: 100 }),
    /// )?;
    /// assert_eq!(ring.len(), 400);
    /// assert_eq!(ring.node_for_hash(2_147_483_647).unwrap().text(), "10.0.0.4:8000");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`BuildError`] if `replicas` is not what the scheme needs or a limit is exceeded.
    ///
    /// # Complexity
    ///
    /// O(p log p) for p points.
    pub fn with_scheme(buckets: &[Bucket], config: &SchemeConfig) -> Result<Self, BuildError> {
        let mut points = points(buckets, config)?;
        // Stable: of several points on one place the server listed first is in front.
        points.sort_by_key(|point| point.hash());
        let owners = owners(buckets, &points);
        let ring = Layout::Wide(Ring::from_parts(points, Vec::new()));
        Ok(Self::from_scheme(buckets, ring, owners, *config))
    }
}

/// What the number of points of one server depends on: the servers that take part.
struct Pool {
    servers: u32,
    weight: u64,
}

impl Pool {
    fn new(buckets: &[Bucket]) -> Result<Self, BuildError> {
        let servers = live(buckets).count();
        Ok(Self {
            servers: u32::try_from(servers).map_err(|_| BuildError::TooManyBuckets {
                buckets: servers,
                max: MAX_BUCKETS,
            })?,
            weight: live(buckets).map(|(_, b)| u64::from(b.weight())).sum(),
        })
    }
}

/// How many buckets own at least one point.
fn owners(buckets: &[Bucket], points: &[Wide]) -> usize {
    let mut owns = vec![false; buckets.len()];
    for point in points {
        owns[point.node() as usize] = true;
    }
    owns.into_iter().filter(|&owns| owns).count()
}

/// The points, server by server in the program's own order.
fn points(buckets: &[Bucket], config: &SchemeConfig) -> Result<Vec<Wide>, BuildError> {
    let scheme = config.scheme;
    brpc::check_replicas(scheme)?;
    let pool = Pool::new(buckets)?;
    let total = total_points(buckets, config, &pool)?;
    let mut points = Vec::with_capacity(total);
    let mut string = String::new();
    for index in in_server_order(scheme, buckets) {
        let Some(bucket) = buckets.get(index as usize) else {
            continue;
        };
        string.clear();
        scheme.write_name(bucket, &mut string);
        string.push('-');
        let stem = string.len();
        for number in 0..scheme.strings(bucket, &pool) {
            string.truncate(stem);
            write!(string, "{number}").expect("a String takes all that is written to it");
            scheme.hash_string(string.as_bytes(), |hash| {
                points.push(Wide::new(hash, index))
            });
        }
    }
    Ok(points)
}

/// The number of points, checked against the limits before anything is allocated.
fn total_points(
    buckets: &[Bucket],
    config: &SchemeConfig,
    pool: &Pool,
) -> Result<usize, BuildError> {
    let points = live(buckets)
        .map(|(_, bucket)| u64::from(config.scheme.strings(bucket, pool)))
        .sum::<u64>()
        .saturating_mul(config.scheme.points_per_string());
    let max = config.max_points.min(MAX_POINTS);
    match usize::try_from(points) {
        Ok(total) if points <= max => Ok(total),
        _ => Err(BuildError::TooManyPoints { points, max }),
    }
}

/// The buckets that take part, by index, in the order in which the program holds its servers.
///
/// The order decides nothing but who is first of several points on one place.
fn in_server_order(scheme: Scheme, buckets: &[Bucket]) -> Vec<u32> {
    let mut order: Vec<u32> = live(buckets).map(|(index, _)| index).collect();
    let bucket = |index: u32| &buckets[index as usize];
    match scheme {
        Scheme::Twemproxy { .. } => {
            order.sort_by(|&a, &b| twemproxy::compare(bucket(a), bucket(b)));
        }
        Scheme::BrpcMurmurHash { .. } | Scheme::BrpcMd5 { .. } | Scheme::BrpcKetama { .. } => {
            order.sort_by(|&a, &b| brpc::compare(bucket(a), bucket(b)));
            order.dedup_by(|a, b| bucket(*a).text() == bucket(*b).text());
        }
        _ => {}
    }
    order
}

fn live(buckets: &[Bucket]) -> impl Iterator<Item = (u32, &Bucket)> {
    (0..).zip(buckets).filter(|(_, bucket)| bucket.weight() > 0)
}

impl Scheme {
    /// How many strings are hashed for `bucket`.
    fn strings(self, bucket: &Bucket, pool: &Pool) -> u32 {
        match self {
            Self::LibKetama => libketama::strings(bucket.weight(), pool),
            Self::LibmemcachedWeighted { .. } | Self::Twemproxy { .. } => {
                libmemcached::weighted_strings(bucket.weight(), pool)
            }
            Self::LibmemcachedPlain { .. } => libmemcached::PLAIN_POINTS,
            Self::BrpcMurmurHash { replicas } | Self::BrpcMd5 { replicas } => replicas,
            Self::BrpcKetama { replicas } => replicas / 4,
        }
    }

    fn points_per_string(self) -> u64 {
        match self {
            Self::LibmemcachedPlain { .. } | Self::BrpcMurmurHash { .. } | Self::BrpcMd5 { .. } => {
                1
            }
            _ => 4,
        }
    }

    /// The part of the hashed string that stands for the server.
    fn write_name(self, bucket: &Bucket, string: &mut String) {
        match self {
            Self::LibmemcachedWeighted { names } | Self::LibmemcachedPlain { names, .. } => {
                libmemcached::write_name(bucket, names, string);
            }
            Self::Twemproxy { .. } => string.push_str(twemproxy::name(bucket)),
            _ => string.push_str(bucket.text()),
        }
    }

    /// The one or four points of a string.
    fn hash_string(self, string: &[u8], mut point: impl FnMut(u32)) {
        match self {
            Self::LibmemcachedPlain { point_hash, .. } => point(point_hash.hash(string)),
            Self::BrpcMurmurHash { .. } => point(KeyHash::Murmur3.hash(string)),
            Self::BrpcMd5 { .. } => point(KeyHash::Md5.hash(string)),
            _ => md5_words(string).into_iter().for_each(point),
        }
    }
}

/// Strings per server at equal weights in the schemes that take four points from each.
const STRINGS_PER_SERVER: u8 = 40;

const MAX_BUCKETS: usize = u32::MAX as usize;

/// A ring position must fit in a `u32`.
const MAX_POINTS: u64 = u32::MAX as u64;
