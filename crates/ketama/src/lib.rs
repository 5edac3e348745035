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
//! The crate has no clock, thread, log or global state, and the request path (everything that
//! takes a key) neither fails nor allocates.
#![forbid(unsafe_code)]
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(test(attr(deny(warnings))))]

extern crate alloc;

mod bucket;
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
