//! A real control plane, a fault proxy and the oracles for the tests of address-controller.
