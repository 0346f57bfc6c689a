//! Torture: what no user would do on purpose. Models, scenarios, and the crash explorer.

pub mod crash;
