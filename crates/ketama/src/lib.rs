//! A consistent-hash ring that answers like nginx.
//!
//! [`Continuum`] maps a key to one of several weighted servers, bit for bit as
//! `hash KEY consistent;` does in nginx 1.22 to 1.31, so a pool can move from nginx to Rust
//! without a single cache entry changing its place.
//!
//! ```
//! use ketama::{Bucket, Continuum};
//!
//! let ring = Continuum::new(&[
//!     Bucket::new("127.0.0.1:7777".parse()?, 1),
//!     Bucket::new("127.0.0.1:7778".parse()?, 1),
//! ])?;
//! assert_eq!(ring.node(b"/some/path").unwrap().text(), "127.0.0.1:7778");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The three types to know: [`Bucket`] (what is hashed of a server, and its weight),
//! [`Continuum`] (the ring) and [`BuildError`] (everything that can be wrong with a pool).
//!
//! # What it can do
//!
//! - [`node`](Continuum::node) finds the owner of a key in constant expected time: the CRC-32 of
//!   the key and two cache misses, however many points there are. [`nodes`](Continuum::nodes)
//!   gives the failover order, each server once.
//! - [`applied`](Continuum::applied) and [`rebuilt`](Continuum::rebuilt) change a ring at the cost
//!   of one pass; the result equals a fresh build point by point.
//! - [`shares`](Continuum::shares) and [`diff`](Continuum::diff) say exactly what each server owns
//!   and what a change would move, before it is made; [`fingerprint`](Continuum::fingerprint) lets
//!   two processes compare their rings.
//!
//! The crate has no clock, thread, log or global state. Everything that can be wrong with a pool
//! is an error of a constructor. A lookup cannot fail other than on an empty ring, and allocates
//! nothing; `nodes` allocates a byte per bucket.
//!
//! # How even the shares are
//!
//! With 160 points per weight the share of a server deviates from its weight by about
//! 1 / sqrt(160 x weight), 8 % at weight 1. Shares of the circle relative to the mean, for servers
//! `192.0.2.1:80` upwards:
//!
//! | servers | weight | smallest | largest |
//! |---|---|---|---|
//! | 2 | 1 | 0.90 | 1.10 |
//! | 3 | 1 | 0.98 | 1.01 |
//! | 5 | 1 | 0.93 | 1.11 |
//! | 10 | 1 | 0.89 | 1.22 |
//! | 50 | 1 | 0.84 | 1.18 |
//! | 3 | 100 | 0.999 | 1.001 |
//!
//! Weights in the ratio 1 : 2 : 3 give 0.166, 0.331 and 0.502. Larger weights in the same ratio
//! even the shares out, at 9 bytes a point; CRC-32 itself is even enough at these numbers.
//!
//! # Features
//!
//! No feature changes what another call answers; each only adds names.
//!
//! - `std` (default): run-time detection of the CPU's carry-less multiplication for the CRC of keys.
//!   Without it the crate is `no_std` and needs `alloc`.
//! - `v2`: [`Version`]`::V2`, pingora's layout: 6 bytes a point, any number of points per weight,
//!   one ring for every order of the servers.
//! - `schemes`: the rings of libketama, libmemcached, twemproxy and bRPC.
//! - `serde`: buckets and configurations in files.
#![deny(unsafe_code)]
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(test(attr(deny(warnings))))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod bucket;
#[cfg(target_arch = "x86_64")]
mod clmul;
mod continuum;
mod crc;
mod error;
#[cfg(feature = "serde")]
mod format;
mod layout;
mod points;
mod ring;
#[cfg(feature = "schemes")]
mod scheme;
mod share;
mod sort;
mod update;
mod version;

pub use bucket::Bucket;
pub use continuum::{Continuum, NodeIter, Nodes, Walk};
pub use error::BuildError;
#[cfg(feature = "schemes")]
#[cfg_attr(docsrs, doc(cfg(feature = "schemes")))]
pub use scheme::{KeyHash, PointNames, Scheme, SchemeConfig};
pub use share::Move;
pub use update::Change;
pub use version::{RingConfig, Version};
