//! Every development command of address-controller.

fn main() {}
