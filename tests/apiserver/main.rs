//! What holds on a real API server. All tests here share one control plane; see `testbed::Sandbox`.

mod controlplane;
