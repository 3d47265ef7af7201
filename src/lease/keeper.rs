//! Taking a Lease, keeping it and giving it back: what to ask the API server next.
//!
//! It makes no request and has no clock. Whoever carries its wishes out says when the request was
//! sent and what was answered.

use std::time::Duration;

use jiff::Timestamp;

use super::{Answer, Record, Tenure, Terms, Times, record::LeaseObject};

/// The next request.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Read the Lease.
    Read,
    /// Create it.
    Create(Box<LeaseObject>),
    /// Replace it, on the resourceVersion in it.
    Replace(Box<LeaseObject>),
}

/// One Lease that a process wants to hold.
#[derive(Debug)]
pub struct Keeper {
    terms: Terms,
    times: Times,
    tenure: Tenure,
    known: Known,
}

/// What is known of the Lease.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    Nothing,
    Absent,
    Is(Record),
}

impl Keeper {
    /// For a Lease of which nothing is known. What is granted goes into `tenure`.
    pub fn new(terms: Terms, times: Times, tenure: Tenure) -> Self {
        Self { terms, times, tenure, known: Known::Nothing }
    }

    /// The Lease's name.
    pub fn name(&self) -> &str {
        &self.terms.name
    }

    /// Until when one may act.
    pub fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// Whether the Lease said, when it was last seen, that this process holds it.
    pub fn is_ours(&self) -> bool {
        matches!(&self.known, Known::Is(record) if self.ours(record))
    }

    /// The Lease was seen, on a watch or in a read. An older state than the known one says nothing.
    pub fn observe(&mut self, record: &Record) {
        if let Known::Is(known) = &self.known
            && !record.is_newer(known)
        {
            return;
        }
        if !self.ours(record) {
            self.tenure.end();
        }
        self.known = Known::Is(record.clone());
    }

    /// It was read, and is not there. Whoever holds it may act on until the deadline: nobody else
    /// takes it before that.
    pub fn absent(&mut self) {
        self.known = Known::Absent;
    }

    /// The next request, or none where there is nothing to do. `may_take`: whether a Lease that
    /// somebody else holds may be taken in this state, and `None` whether one that is not there may be made.
    pub fn next(&self, now: Timestamp, may_take: impl Fn(Option<&Record>) -> bool) -> Option<Ask> {
        match &self.known {
            Known::Nothing => Some(Ask::Read),
            Known::Absent => may_take(None).then(|| Ask::Create(Box::new(self.terms.create(now)))),
            Known::Is(record) => {
                let free = self.ours(record) || record.holder().is_none();
                (free || may_take(Some(record)))
                    .then(|| Ask::Replace(Box::new(self.terms.replace(record, now))))
            }
        }
    }

    /// A request was answered that was sent at `sent`. Returns whether something is to be asked again
    /// at once: what was known was old.
    pub fn answered(&mut self, ask: &Ask, sent: Duration, answer: &Answer) -> bool {
        match (ask, answer) {
            (Ask::Read, Answer::Is(record)) => {
                self.observe(record);
                // An older one was known: it is gone, and this is what stands in its place.
                self.known = Known::Is(record.clone());
                true
            }
            (Ask::Read, Answer::Absent) => {
                self.absent();
                true
            }
            (Ask::Create(_) | Ask::Replace(_), Answer::Is(record)) => {
                self.known = Known::Is(record.clone());
                self.tenure.grant(sent + self.times.deadline);
                false
            }
            // Look again: it is another's, or our own write whose answer was lost.
            (Ask::Create(_) | Ask::Replace(_), Answer::Conflict | Answer::Absent) => {
                self.known = Known::Nothing;
                true
            }
            (_, Answer::Refused(_) | Answer::Unanswered(_)) | (Ask::Read, Answer::Conflict) => {
                false
            }
        }
    }

    /// The request that gives it back, if this process holds it. From here on one does not act.
    pub fn release(&mut self, now: Timestamp) -> Option<Ask> {
        self.tenure.end();
        match &self.known {
            Known::Is(record) if self.ours(record) => {
                Some(Ask::Replace(Box::new(record.released(now))))
            }
            Known::Is(_) | Known::Absent | Known::Nothing => None,
        }
    }

    fn ours(&self, record: &Record) -> bool {
        record.holder() == Some(&*self.terms.holder)
    }
}
