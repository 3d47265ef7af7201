//! Which requests a fault is for, and what it is.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::request::{Request, Verb};
use crate::wait::try_eventually;

type Predicate = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// Which requests, and from which on and how often.
#[derive(Clone, Default)]
pub struct Match {
    verbs: Vec<Verb>,
    writes: bool,
    resource: Option<String>,
    path: Option<String>,
    name: Option<String>,
    agent: Option<String>,
    when: Option<Predicate>,
    skip: usize,
    times: Option<usize>,
}

impl Match {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests with a verb; called again, with one or the other.
    pub fn verb(verb: Verb) -> Self {
        Self::default().or_verb(verb)
    }

    /// Requests that change something.
    pub fn writes() -> Self {
        Self { writes: true, ..Self::default() }
    }

    /// One more verb.
    #[must_use]
    pub fn or_verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Of one resource: `ipaddresses`, or `ipaddresses/status` for the sub-resource.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Whose path contains a text.
    #[must_use]
    pub fn path(mut self, part: &str) -> Self {
        self.path = Some(part.to_owned());
        self
    }

    /// For the object of a name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Whose user agent contains a text.
    #[must_use]
    pub fn agent(mut self, part: &str) -> Self {
        self.agent = Some(part.to_owned());
        self
    }

    /// For which a closure says yes.
    #[must_use]
    pub fn when(mut self, predicate: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(predicate));
        self
    }

    /// Not the first `count` of them.
    #[must_use]
    pub fn after(mut self, count: usize) -> Self {
        self.skip = count;
        self
    }

    /// At most `count` of them.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.times = Some(count);
        self
    }

    /// The `n`th of them alone, from 1.
    #[must_use]
    pub fn nth(self, n: usize) -> Self {
        self.after(n.saturating_sub(1)).times(1)
    }

    /// Whether a request is of those meant, whichever one it is.
    pub fn matches(&self, request: &Request) -> bool {
        let is = |wanted: &Option<String>, seen: &str| wanted.as_ref().is_none_or(|w| w == seen);
        let has =
            |wanted: &Option<String>, seen: &str| wanted.as_ref().is_none_or(|w| seen.contains(w));
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && (!self.writes || request.verb.is_write())
            && is(&self.resource, &request.resource)
            && is(&self.name, &request.name)
            && has(&self.path, &request.path)
            && has(&self.agent, &request.user_agent)
            && self.when.as_ref().is_none_or(|when| when(request))
    }
}

/// What becomes of a request after a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// It goes on: to the API server, or its answer to the caller.
    On,
    /// The caller's connection is closed without an answer.
    Drop,
}

type Hook = Arc<dyn Fn(&Request) -> Go + Send + Sync>;

/// A fault.
#[derive(Clone)]
pub enum Act {
    /// Answered with this status in place of the API server, which never sees it.
    Answer {
        /// The HTTP status.
        status: u16,
        /// The header `Retry-After`, in seconds.
        retry_after: Option<u64>,
    },
    /// The request takes effect, and the caller is answered with this status.
    AnswerAfter(u16),
    /// The connection is closed without an answer, and the API server never sees the request.
    Drop,
    /// The request takes effect, and the connection is closed without an answer.
    DropAfter,
    /// The request waits for this long.
    Delay(Duration),
    /// The request waits until [`RuleHandle::release`].
    Hold,
    /// The request takes effect at once, and its answer waits until [`RuleHandle::release`].
    HoldAnswer,
    /// A test's own code runs before the request goes to the API server.
    Before(Hook),
    /// A test's own code runs when the API server has answered, before the caller is.
    After(Hook),
}

impl Act {
    /// Answered with this status in place of the API server.
    pub fn answer(status: u16) -> Self {
        Self::Answer { status, retry_after: None }
    }

    /// A hook before the request goes on. It may block.
    pub fn before(hook: impl Fn(&Request) -> Go + Send + Sync + 'static) -> Self {
        Self::Before(Arc::new(hook))
    }

    /// A hook after the API server's answer. It may block.
    pub fn after(hook: impl Fn(&Request) -> Go + Send + Sync + 'static) -> Self {
        Self::After(Arc::new(hook))
    }
}

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { status, .. } => write!(f, "Answer({status})"),
            Self::AnswerAfter(status) => write!(f, "AnswerAfter({status})"),
            Self::Drop => f.write_str("Drop"),
            Self::DropAfter => f.write_str("DropAfter"),
            Self::Delay(time) => write!(f, "Delay({time:?})"),
            Self::Hold => f.write_str("Hold"),
            Self::HoldAnswer => f.write_str("HoldAnswer"),
            Self::Before(_) => f.write_str("Before"),
            Self::After(_) => f.write_str("After"),
        }
    }
}

/// A rule that was given to a proxy.
pub(super) struct Rule {
    matching: Match,
    pub(super) act: Act,
    seen: Mutex<usize>,
    hits: Mutex<usize>,
    gate: watch::Sender<bool>,
}

impl Rule {
    /// Whether the rule acts on this request; counts it.
    fn takes(&self, request: &Request) -> bool {
        if !self.matching.matches(request) {
            return false;
        }
        let mut seen = self.seen.lock();
        let number = *seen;
        *seen += 1;
        let from = self.matching.skip;
        let takes = number >= from && self.matching.times.is_none_or(|times| number < from + times);
        *self.hits.lock() += usize::from(takes);
        takes
    }

    /// Waits until the rule lets go what it holds.
    pub(super) async fn released(&self) {
        let _ = self.gate.subscribe().wait_for(|open| *open).await;
    }
}

/// The rules of a proxy.
#[derive(Default)]
pub(super) struct Rules(Arc<Mutex<Vec<Arc<Rule>>>>);

impl Rules {
    pub(super) fn add(&self, matching: Match, act: Act) -> RuleHandle {
        let (gate, _) = watch::channel(false);
        let (seen, hits) = (Mutex::new(0), Mutex::new(0));
        let rule = Arc::new(Rule { matching, act, seen, hits, gate });
        self.0.lock().push(rule.clone());
        RuleHandle { rule, rules: self.0.clone() }
    }

    pub(super) fn clear(&self) {
        for rule in self.0.lock().drain(..) {
            rule.gate.send_replace(true);
        }
    }

    pub(super) fn first(&self, request: &Request) -> Option<Arc<Rule>> {
        // Cloned out first: a closure of a test that looks at the rules must not meet the lock.
        let rules = self.0.lock().clone();
        rules.into_iter().find(|rule| rule.takes(request))
    }
}

/// A rule, for the test that gave it. The rule stays when this is dropped.
#[derive(Clone)]
pub struct RuleHandle {
    rule: Arc<Rule>,
    rules: Arc<Mutex<Vec<Arc<Rule>>>>,
}

impl RuleHandle {
    /// How many requests it has acted on.
    pub fn hits(&self) -> usize {
        *self.rule.hits.lock()
    }

    /// Waits until it has acted on `count` requests: for [`Act::Hold`], until so many are held.
    ///
    /// # Errors
    /// When they have not come within `bound`.
    pub async fn reached(&self, count: usize, bound: Duration) -> anyhow::Result<()> {
        let what = format!("{count} requests for a rule ({:?})", self.rule.act);
        try_eventually(bound, &what, || async {
            let hits = self.hits();
            anyhow::ensure!(hits >= count, "{hits} requests");
            Ok(())
        })
        .await
    }

    /// Lets go what is held, and whatever comes later.
    pub fn release(&self) {
        self.rule.gate.send_replace(true);
    }

    /// Acts on nothing any more, and lets go what is held.
    pub fn remove(&self) {
        self.rules.lock().retain(|rule| !Arc::ptr_eq(rule, &self.rule));
        self.release();
    }
}
