//! The selection: which address a claim's binders chose for each family, recorded on the claim.
//!
//! The annotation's text is a comma-separated list of `family=name/counter`, with `/held` behind
//! the counter once an address of that family was published and then lost. Every attempt to bind
//! counts up, so that the claim changes even when the same address is chosen again: that is what
//! makes an older attempt, decided on an older state of the claim, fail.
//!
//! A name is an object's name, which can contain neither `/` nor `=` nor `,`. An entry that names what
//! no object can be called was not written here, and is left out.

use std::{collections::BTreeMap, fmt};

use super::view::Name;
use crate::api::{IpFamily, is_object_name};

/// The choice for one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The chosen `IPAddress`.
    pub name: Name,
    /// How often a choice was made for the family; zero when none ever was of this address.
    pub counter: u32,
    /// Whether the family was held and then lost. Stays once it is set.
    pub held: bool,
}

/// The choices of a claim, by family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selections(BTreeMap<IpFamily, Selection>);

impl Selections {
    /// Reads the annotation. What does not parse is left out: the annotation is only a record of
    /// what is known, and whatever it names is checked against the address itself.
    pub fn parse(text: &str) -> Self {
        Self(text.split(',').filter_map(parse_entry).collect())
    }

    /// The choice for a family.
    pub fn get(&self, family: IpFamily) -> Option<&Selection> {
        self.0.get(&family)
    }

    /// Every choice.
    pub fn iter(&self) -> impl Iterator<Item = (IpFamily, &Selection)> {
        self.0.iter().map(|(family, selection)| (*family, selection))
    }

    /// Every chosen name.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.0.values().map(|s| &s.name)
    }

    /// Whether nothing was chosen yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records another choice, of the same name or a different one.
    pub fn select(&mut self, family: IpFamily, name: &Name) {
        let before = self.0.get(&family);
        let next = Selection {
            name: name.clone(),
            counter: before.map_or(1, |s| s.counter.wrapping_add(1)),
            held: before.is_some_and(|s| s.held),
        };
        self.0.insert(family, next);
    }

    /// Records that the family was held, by this address, and no longer is. One that was never
    /// chosen, but given, counts from zero.
    pub fn lose(&mut self, family: IpFamily, name: &Name) {
        let chosen = self.0.get(&family).filter(|s| s.name == *name);
        let counter = chosen.map_or(0, |s| s.counter.wrapping_add(1));
        self.0.insert(family, Selection { name: name.clone(), counter, held: true });
    }

    /// Whether the address of this name is one that was chosen for the family.
    pub fn chose(&self, family: IpFamily, name: &Name) -> bool {
        self.0.get(&family).is_some_and(|s| s.name == *name && s.counter > 0)
    }
}

impl fmt::Display for Selections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (family, s)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let held = if s.held { "/held" } else { "" };
            write!(f, "{comma}{family}={}/{}{held}", s.name, s.counter)?;
        }
        Ok(())
    }
}

fn parse_entry(entry: &str) -> Option<(IpFamily, Selection)> {
    let (family, rest) = entry.trim().split_once('=')?;
    let family = match family {
        "IPv4" => IpFamily::IPv4,
        "IPv6" => IpFamily::IPv6,
        _ => return None,
    };
    let mut parts = rest.split('/');
    let name = parts.next().filter(|n| is_object_name(n))?;
    let counter = parts.next()?.parse().ok()?;
    let held = match parts.next() {
        None => false,
        Some("held") => true,
        Some(_) => return None,
    };
    parts.next().is_none().then(|| (family, Selection { name: name.into(), counter, held }))
}
