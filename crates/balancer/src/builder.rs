//! How a balancer is put together.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use selection::{Build, BuildError, NodeSet, Selector};

use crate::board::Listener;
use crate::snapshot::{BuildFn, Maker};
use crate::{ConfigError, Discovery, Event, HealthCheck, LoadBalancer, Options, SharedHealth};

/// A balancer in the making.
pub struct Builder<S: ?Sized> {
    pub(crate) name: Arc<str>,
    pub(crate) discovery: Arc<dyn Discovery>,
    pub(crate) maker: Maker<S>,
    pub(crate) check: Option<Arc<dyn HealthCheck>>,
    pub(crate) options: Options,
    pub(crate) listener: Option<Arc<Listener>>,
    pub(crate) shared_health: Option<SharedHealth>,
    #[cfg(feature = "metrics")]
    pub(crate) metrics: Option<crate::Metrics>,
}

impl<S: Build> Builder<S> {
    /// The selector `S` with this config, which every rebuild uses.
    #[must_use]
    pub fn new(discovery: impl Discovery + 'static, config: S::Config) -> Self {
        let erase = |selector: &Arc<S>| Arc::clone(selector) as Arc<dyn Selector>;
        Self::with_maker(discovery, build::<S>(config), erase)
    }

    /// With one more selector over the same members, with this config: the next
    /// [lane](LoadBalancer::lane).
    #[must_use]
    pub fn and(mut self, config: S::Config) -> Self {
        self.maker.builds.push(build::<S>(config));
        self
    }
}

/// A build of `S` with this config, reusing the one before.
fn build<S: Build>(config: S::Config) -> Box<BuildFn<S>> {
    Box::new(move |nodes, previous| {
        let selector = match previous {
            Some(previous) => S::rebuild(previous, nodes, &config)?,
            None => S::build(nodes, &config)?,
        };
        Ok(Arc::new(selector))
    })
}

impl Builder<dyn Selector> {
    /// A selector chosen at run time: `build` makes one over the given nodes, and may reuse the
    /// one before it.
    #[must_use]
    pub fn from_factory(
        discovery: impl Discovery + 'static,
        build: impl Fn(&NodeSet, Option<&dyn Selector>) -> Result<Arc<dyn Selector>, BuildError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self::with_maker(discovery, Box::new(build), Arc::clone)
    }

    /// The selector `T` with this config, behind `dyn Selector`, so that others can stand beside
    /// it: see [`and_of`](Self::and_of).
    #[must_use]
    pub fn of<T: Build>(discovery: impl Discovery + 'static, config: T::Config) -> Self {
        Self::with_maker(discovery, build_erased::<T>(config), Arc::clone)
    }

    /// With one more selector over the same members, of any kind: the next
    /// [lane](LoadBalancer::lane).
    #[must_use]
    pub fn and_of<T: Build>(mut self, config: T::Config) -> Self {
        self.maker.builds.push(build_erased::<T>(config));
        self
    }
}

fn build_erased<T: Build>(config: T::Config) -> Box<BuildFn<dyn Selector>> {
    let build = build::<T>(config);
    Box::new(move |nodes, previous| {
        let previous = previous.and_then(|selector| (selector as &dyn Any).downcast_ref());
        Ok(build(nodes, previous)? as Arc<dyn Selector>)
    })
}

impl<S: Selector + ?Sized> Builder<S> {
    /// With a name, for status, logs and metrics; "default" without. It should tell the pools of a
    /// program apart, and be one of a few.
    #[must_use]
    pub fn name(self, name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    /// With an active health check. Without one, every backend is taken for healthy.
    #[must_use]
    pub fn health_check(self, check: impl HealthCheck + 'static) -> Self {
        Self {
            check: Some(Arc::new(check)),
            ..self
        }
    }

    /// With these options in place of the defaults.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// With somebody to tell when a backend becomes fit, or unfit, for requests.
    ///
    /// Events come one at a time and in order, on the thread that caused them or one that caused
    /// an earlier one; no lock is held, so the listener may call the balancer. It should be quick:
    /// the cause may have been a request.
    #[must_use]
    pub fn on_event(self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self {
            listener: Some(Arc::new(listener)),
            ..self
        }
    }

    /// With the health of its backends shared with the other balancers that are given `health`.
    #[must_use]
    pub fn shared_health(self, health: &SharedHealth) -> Self {
        Self {
            shared_health: Some(health.clone()),
            ..self
        }
    }

    /// With its metrics recorded, by the crate `metrics`, under its [name](Self::name).
    #[cfg(feature = "metrics")]
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    #[must_use]
    pub fn metrics(self, metrics: crate::Metrics) -> Self {
        Self {
            metrics: Some(metrics),
            ..self
        }
    }

    /// The balancer, without backends as yet: see [`LoadBalancer::update`] and
    /// [`LoadBalancer::run`].
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if an option is out of its limits or not that of the
    /// [shared health](Self::shared_health), or the selector cannot be built with its config over
    /// no nodes at all.
    pub fn build(self) -> Result<LoadBalancer<S>, ConfigError> {
        self.options.check()?;
        #[cfg(feature = "metrics")]
        if let Some(metrics) = &self.metrics {
            metrics.check()?;
        }
        if let Some(health) = &self.shared_health {
            health.check(&self.options)?;
        }
        self.maker.tier(0, NodeSet::default(), None)?;
        Ok(LoadBalancer::from_builder(self))
    }

    fn with_maker(
        discovery: impl Discovery + 'static,
        build: Box<BuildFn<S>>,
        erase: fn(&Arc<S>) -> Arc<dyn Selector>,
    ) -> Self {
        Self {
            name: "default".into(),
            discovery: Arc::new(discovery),
            maker: Maker {
                builds: vec![build],
                erase,
            },
            check: None,
            options: Options::default(),
            listener: None,
            shared_health: None,
            #[cfg(feature = "metrics")]
            metrics: None,
        }
    }
}

impl<S: ?Sized> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("options", &self.options)
            .field("has_check", &self.check.is_some())
            .finish_non_exhaustive()
    }
}
