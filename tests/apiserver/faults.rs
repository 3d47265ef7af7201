//! What one replica makes of an API server that errs, lags, refuses, or is not there.

mod races;
mod reads;
mod rest;
mod server;
mod strange;
mod watches;
mod writes;
