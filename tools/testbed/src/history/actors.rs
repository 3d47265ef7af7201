//! Who is who, by what the audit log says of them.

use address_controller::{api::well_known::MANAGER, binder::invariants::Actor};

/// How callers are told apart: the controller's replicas by their user agents, everybody else as a
/// test says.
#[derive(Clone, Debug, Default)]
pub struct Actors {
    agents: Vec<(String, Actor)>,
    users: Vec<(String, Actor)>,
}

impl Actors {
    /// Callers whose user agent begins like this.
    #[must_use]
    pub fn agent(mut self, prefix: &str, actor: Actor) -> Self {
        self.agents.push((prefix.to_owned(), actor));
        self
    }

    /// Callers who are authenticated under this name.
    #[must_use]
    pub fn user(mut self, name: &str, actor: Actor) -> Self {
        self.users.push((name.to_owned(), actor));
        self
    }

    /// Who that is: what the test says of the user agent, the controller, what the test says of the
    /// user, and else somebody.
    pub(super) fn who(&self, user_agent: &str, username: &str) -> Actor {
        let controller = user_agent.strip_prefix(MANAGER).is_some_and(|r| r.starts_with('/'));
        if let Some((_, actor)) = self.agents.iter().find(|(p, _)| user_agent.starts_with(p)) {
            return actor.clone();
        }
        if controller {
            return Actor::Controller(user_agent.to_owned());
        }
        let user = self.users.iter().find(|(name, _)| name == username);
        user.map_or(Actor::Other, |(_, actor)| actor.clone())
    }
}
