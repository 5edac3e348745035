//! From a config to a balancer.

use std::sync::Arc;

use selection::{Algorithm, NodeSet, Selector};

use super::joint::Joint;
use super::{ActiveConfig, PoolConfig};
use crate::{
    Builder, ConfigError, Discovery, HealthCheck, InitialHealth, LoadBalancer, Options, Static,
    TcpCheck,
};

impl LoadBalancer<dyn Selector> {
    /// All that a config says: discovery, checks, selector and options. What is left is to keep it
    /// in an `Arc` and to [`run`](Self::run) it.
    ///
    /// To add what no file can hold, such as a listener, use [`Builder::from_config`].
    ///
    /// # Errors
    ///
    /// [`ConfigError`], with the key in it. A source that does not answer is no error: see
    /// [`update`](Self::update).
    pub fn from_config(config: PoolConfig) -> Result<Self, ConfigError> {
        Builder::from_config(config)?.build()
    }
}

impl Builder<dyn Selector> {
    /// All that a config says. [`options`](Self::options) and
    /// [`health_check`](Self::health_check) would replace what it says of them.
    ///
    /// # Errors
    ///
    /// As [`LoadBalancer::from_config`].
    pub fn from_config(mut config: PoolConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let name = config.name.take();
        let options = config.options();
        let check = config.health.active.as_ref().map(ActiveConfig::check);
        let algorithm = config.algorithm.clone();
        let mut builder = Self::from_factory(config.sources()?, move |nodes, previous| {
            select(&algorithm, nodes, previous).map(Arc::from)
        })
        .options(options);
        if let Some(name) = name {
            builder = builder.name(name);
        }
        Ok(match check {
            Some(check) => builder.health_check(check),
            None => builder,
        })
    }
}

fn select(
    algorithm: &Algorithm,
    nodes: &NodeSet,
    previous: Option<&dyn Selector>,
) -> Result<Box<dyn Selector>, selection::BuildError> {
    match previous {
        Some(previous) => algorithm.rebuild(previous, nodes),
        None => algorithm.build(nodes),
    }
}

impl PoolConfig {
    /// What it says of the balancer apart from its selector and its backends.
    #[must_use]
    pub fn options(&self) -> Options {
        let mut options = Options::default()
            .update_interval(self.update_interval)
            .min_backends(self.min_backends)
            .panic_threshold(self.panic_threshold)
            .order(self.order)
            .initial_health(self.health.initial)
            .passive(self.health.passive.clone());
        options.admin.clone_from(&self.admin);
        options.slow_start.clone_from(&self.slow_start);
        if let Some(active) = &self.health.active {
            options.check_interval = active.interval;
            options.check_jitter = active.jitter;
            options.parallel_checks = active.parallel;
        }
        options
    }

    /// What each key by itself cannot tell.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.options().check()?;
        self.algorithm.build(&NodeSet::default())?;
        if self.health.initial == InitialHealth::Unhealthy && self.health.active.is_none() {
            let message = "`unhealthy` applies only with `health.active`: without checks no \
                           backend would ever serve";
            return Err(invalid("health.initial", message));
        }
        for (index, source) in self.discovery.iter().enumerate() {
            source
                .check()
                .map_err(|message| invalid(&format!("discovery[{index}]"), message))?;
        }
        self.check_members()
    }

    /// Where all members are known, so is what cannot come true.
    fn check_members(&self) -> Result<(), ConfigError> {
        if self.backends.is_empty() && self.discovery.is_empty() {
            let message = "there are none, and no `discovery`: such a pool stays empty";
            return Err(invalid("backends", message));
        }
        let fixed = self.discovery.iter().map(super::Source::fixed);
        let Some(fixed) = fixed.collect::<Option<Vec<_>>>() else {
            return Ok(());
        };
        let members: Vec<_> = fixed.into_iter().flatten().chain(&self.backends).collect();
        if self.min_backends > members.len() {
            let (min, n) = (self.min_backends, members.len());
            let message = format!("is {min}, and there are {n} backends and no others to find");
            return Err(invalid("min_backends", message));
        }
        for addr in self.admin.keys() {
            if !members.iter().any(|backend| backend.addr == *addr) {
                let message = "is none of the backends, and there are no others to find";
                return Err(invalid(&format!("admin.{addr}"), message));
            }
        }
        Ok(())
    }

    /// All sources as one.
    fn sources(self) -> Result<Arc<dyn Discovery>, ConfigError> {
        let mut parts: Vec<Box<dyn Discovery>> = Vec::new();
        if !self.backends.is_empty() {
            parts.push(Box::new(Static::new(self.backends)));
        }
        for (index, source) in self.discovery.into_iter().enumerate() {
            let part = source
                .discovery()
                .map_err(|message| invalid(&format!("discovery[{index}]"), message))?;
            parts.push(part);
        }
        let only = if parts.len() == 1 { parts.pop() } else { None };
        Ok(match only {
            Some(only) => only.into(),
            None => Arc::new(Joint::new(parts, self.update_interval)),
        })
    }
}

impl ActiveConfig {
    fn check(&self) -> Arc<dyn HealthCheck> {
        #[cfg(feature = "http")]
        if let Some(http) = &self.http {
            return Arc::new(http.check(self));
        }
        Arc::new(
            TcpCheck::new()
                .rise(self.rise)
                .fall(self.fall)
                .timeout(self.timeout),
        )
    }
}

fn invalid(key: &str, message: impl Into<String>) -> ConfigError {
    ConfigError::Invalid {
        key: key.to_owned(),
        message: message.into(),
    }
}
