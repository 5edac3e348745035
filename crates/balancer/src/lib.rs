//! A health-filtered load balancer over discovery and any selector, as one atomic snapshot.
//!
//! A [`LoadBalancer`] knows the backends that a [`Discovery`] finds, filters them by health, and
//! picks one for every request with the selector of your choice from the crate [`selection`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use balancer::selection::Consistent;
//! use balancer::{Address, Backend, LoadBalancer, Static};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let addr: Address = "10.0.0.1:80".parse()?;
//! let backends = Arc::new(Static::new([Backend::new(addr.clone()).with_weight(2)]));
//! let balancer = LoadBalancer::<Consistent>::new(Arc::clone(&backends))?;
//! balancer.update().await?;
//!
//! let pick = balancer.select(b"/path").ok_or("no backend")?;
//! assert_eq!((&pick.addr, pick.in_flight()), (&addr, 1));
//! drop(pick); // the request has ended
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! [`LoadBalancer::run`] keeps members and health up to date in the background.
//!
//! # What there is
//!
//! - Retries and hedges: [`LoadBalancer::attempts`]; conditions of your own:
//!   [`LoadBalancer::select_where`]; cheaper picks for a worker: [`LoadBalancer::handle`].
//! - Health from checks ([`TcpCheck`], or your own [`HealthCheck`]) and from the outcomes that
//!   [`Pick::complete`] tells ([`Passive`]); every flip, and why, as an [`Event`].
//! - Backups ([`Backend::tier`]), limits ([`Backend::max_in_flight`]), [`SlowStart`],
//!   [`Options::panic_threshold`], and [`LoadBalancer::drain`].
//! - Several selectors over the same members: [`LoadBalancer::lane`]; several balancers over the same
//!   backends: [`SharedHealth`].
//! - For operators: [`LoadBalancer::status`], events of the crate `tracing`, and with the feature
//!   `metrics` `Builder::metrics`; all names are in `docs/observability.md`.
//! - The balancer as a tower service, with the feature `tower`: `tower::Balance`.
//! - A whole pool from a TOML or JSON file, with the feature `serde`: `PoolConfig`.
//!
//! # What holds
//!
//! - A backend is its [`Address`]. Health, the administrative state and the requests in flight
//!   stay with it while weight, tier or anything else about it changes.
//! - A request reads one snapshot: members, readiness and selector are always of one generation.
//! - An error or a panic of a discovery, a check or a selector's build leaves in force what was.
//! - Picks allocate nothing, and every [`Pick`] is counted back exactly once. They take no lock,
//!   but for nginx's smooth round robin, whose turns are one shared state, and for the one request
//!   that tries an ejected backend again.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(test(attr(deny(warnings))))]

mod attempts;
mod backend;
mod board;
mod builder;
mod check;
mod clock;
#[cfg(feature = "serde")]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
pub mod config;
mod contain;
pub mod discovery;
mod drain;
mod error;
mod event;
#[cfg(feature = "tower")]
mod follow;
mod handle;
mod health;
mod lane;
mod load_balancer;
mod log;
mod member;
mod members;
#[cfg(feature = "metrics")]
mod meter;
#[cfg(all(test, loom_models))]
mod models;
mod options;
#[cfg(test)]
mod page;
mod passive;
mod pick;
mod pool;
#[cfg(feature = "serde")]
mod schema;
mod service;
mod shared_health;
mod slow_start;
mod snapshot;
mod state;
mod status;
mod sync;
mod tally;
mod tier;
#[cfg(feature = "tower")]
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub mod tower;
mod update;
mod walk;

pub use attempts::Attempts;
pub use backend::{Address, Backend};
pub use builder::Builder;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub use check::HttpCheck;
pub use check::{HealthCheck, TcpCheck};
#[cfg(feature = "serde")]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
pub use config::PoolConfig;
pub use discovery::{Discovery, Static};
pub use drain::Drain;
pub use error::{CheckError, ConfigError, DiscoveryError, ParseAddressError, Part, UpdateError};
pub use event::Event;
pub use handle::Handle;
pub use health::{Active, Admin, Cause, Condition, InitialHealth, Thresholds};
pub use lane::Lane;
pub use load_balancer::LoadBalancer;
#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub use meter::{Metrics, Series};
pub use options::{Options, Order};
pub use passive::{Consecutive, MaxFails, Passive};
pub use pick::Pick;
pub use shared_health::SharedHealth;
pub use slow_start::SlowStart;
pub use status::{BackendStatus, Flips, LastUpdate, Status};
pub use tier::Tier;
pub use update::{Update, UpdateResult};

/// The selectors that a balancer picks with, re-exported for their types.
pub use selection;

/// The examples of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[derive(Debug)]
pub struct Readme;

/// The examples of its page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/migrating-from-pingora.md")]
#[derive(Debug)]
pub struct MigratingFromPingora;

/// The example of its page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/choosing.md")]
#[derive(Debug)]
pub struct Choosing;

/// The example of its page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/configuration.md")]
#[derive(Debug)]
pub struct Configuration;

/// The example of its page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/migrating-from-nginx.md")]
#[derive(Debug)]
pub struct MigratingFromNginx;

/// The example of its page.
#[cfg(all(doctest, feature = "metrics"))]
#[doc = include_str!("../../../docs/observability.md")]
#[derive(Debug)]
pub struct Observability;
