//! A health-filtered load balancer over discovery and any selector, as one atomic snapshot.
#![forbid(unsafe_code)]
