//! Which of n weighted nodes gets a request.
//!
//! A [`Selector`] is built from a [`NodeSet`] and asked with a key and the set of nodes that may
//! be picked now ([`Eligible`]). It does not know sockets, discovery, health checks or clocks:
//! those belong to the caller, for example to the crate `balancer`.
//!
//! The contract that every selector keeps is written at [`Selector`].
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(test(attr(deny(warnings))))]

mod algorithm;
mod alias;
mod consistent;
mod eligible;
mod error;
mod ewma;
mod explain;
mod fair;
#[cfg(not(feature = "v2"))]
mod gated;
mod hash;
mod ip_hash;
mod least_conn;
mod least_time;
mod load;
mod node;
mod p2c;
mod random_two;
mod refused;
mod rehash;
mod selector;
mod smooth;
mod splitmix;
mod start;
mod sync;
mod table;
mod weighted;
mod wheel;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use consistent::{Consistent, KetamaConfig};
pub use eligible::{Eligible, ReadySet, Tried};
pub use error::BuildError;
pub use explain::{Candidate, Explanation, Verdict};
pub use fair::{Fair, FairConfig};
pub use hash::{ModuloHash, ModuloHashConfig};
pub use ip_hash::{AddressPart, IpHash, IpHashConfig};
pub use least_conn::{LeastConn, LeastConnConfig};
pub use least_time::{LeastTime, LeastTimeConfig, TimeTo};
pub use load::{InFlight, NodeLoad};
pub use node::{Identity, Node, NodeId, NodeSet};
pub use p2c::{Load, P2c, P2cConfig, PeakEwmaConfig};
pub use random_two::{RandomTwo, RandomTwoConfig};
pub use selector::{Build, FailureKind, Outcome, Selector};
pub use smooth::{SmoothConfig, SmoothRoundRobin};
pub use start::Start;
pub use weighted::{
    ByChance, ByHash, ByTurn, Candidates, Draw, FNVHash, Fallback, Random, RoundRobin, Weighted,
    WeightedConfig,
};

/// The ring that `Consistent` stands on, re-exported for its types.
pub use ketama;
