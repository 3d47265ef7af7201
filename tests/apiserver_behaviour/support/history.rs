//! What was written in a corner, held against the invariants.

use address_controller::{
    api::{IPAddress, IPAddressClaim},
    binder::invariants::{Object, Rule, Violation},
};
use testbed::{
    history::{History, Report, Scope, Target, check_at_rest},
    wait::{BOUNDED, try_eventually},
};

use super::{Corner, is_fence};

impl Corner {
    /// Everything that happened since this corner was made, in the others too.
    pub(crate) async fn history(&self) -> History {
        self.source.read_since(&self.before).await.unwrap()
    }

    /// Every version of a claim so far.
    pub(crate) async fn versions_of_claim(&self, name: &str) -> Vec<IPAddressClaim> {
        let own = |o: &Object| o.namespace() == Some(self.namespace()) && o.name() == name;
        self.versions(own, |object| match object {
            Object::Claim(v) => v.new.as_deref().cloned(),
            _ => None,
        })
        .await
    }

    /// Every version of an address so far.
    pub(crate) async fn versions_of_address(&self, short: &str) -> Vec<IPAddress> {
        let name = self.name(short);
        self.versions(
            |o| o.name() == name,
            |object| match object {
                Object::Address(v) => v.new.as_deref().cloned(),
                _ => None,
            },
        )
        .await
    }

    async fn versions<K>(
        &self,
        own: impl Fn(&Object) -> bool,
        take: impl Fn(&Object) -> Option<K>,
    ) -> Vec<K> {
        let history = self.history().await;
        let changes = history.changes.iter().map(|c| &c.object);
        changes.filter(|o| own(o)).filter_map(take).collect()
    }

    /// Every write that the controller has asked for of something in this corner, taken or not.
    /// What [`Corner::seen_to`] makes is left out.
    pub(crate) async fn writes(&self) -> Vec<String> {
        let history = self.history().await;
        let writes = history.writes_by_controller(&Scope::everything());
        writes
            .iter()
            .filter(|w| {
                let namespace = w.request.namespace.as_deref() == Some(self.namespace());
                let kinds = matches!(w.request.target, Target::Kind(_));
                let name = w.request.name.as_deref().unwrap_or_default();
                kinds && (namespace || self.is_own(name)) && !is_fence(name)
            })
            .map(|w| {
                format!("{:?} {:?} {:?}", w.request.ask, w.request.name, w.request.subresource)
            })
            .collect()
    }

    fn is_own(&self, name: &str) -> bool {
        name.strip_prefix(self.namespace()).is_some_and(|rest| rest.starts_with('-'))
    }

    /// The end of a test: no invariant was broken in its corner, and in a bounded time nothing is
    /// left to be done there.
    pub(crate) async fn end(mut self) {
        self.ended = true;
        let rest = try_eventually(BOUNDED, "the corner to be at rest", || async {
            let history = self.source.read_since(&self.before).await.map_err(|e| e.to_string())?;
            let (broken, undone) = self.judge(&check_at_rest(&history));
            if !broken.is_empty() {
                return Ok(broken);
            }
            if undone.is_empty() { Ok(Vec::new()) } else { Err(undone.join("\n")) }
        });
        let broken = rest.await.unwrap();
        assert!(broken.is_empty(), "invariants were broken:\n{}", broken.join("\n"));
    }

    /// This corner's violations: what was broken, and what is not done yet.
    fn judge(&self, report: &Report) -> (Vec<String>, Vec<String>) {
        let own = report.violations.iter().filter(|v| {
            let name = v.object.split_once(' ').map_or("", |(_, name)| name);
            let claims = name.strip_prefix(self.namespace()).is_some_and(|r| r.starts_with('/'));
            claims || self.is_own(name)
        });
        let (undone, broken): (Vec<_>, Vec<_>) = own.partition(|v| v.rule == Rule::I9);
        let text = |all: Vec<&Violation>| all.into_iter().map(ToString::to_string).collect();
        (text(broken), text(undone))
    }
}
