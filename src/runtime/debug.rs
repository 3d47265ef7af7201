//! Pages for a person at the pod: whoever knows something offers it under a name.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::RwLock;

type Page = Arc<dyn Fn() -> String + Send + Sync>;

/// What is offered under `/debug/…`. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Debug(Arc<RwLock<BTreeMap<&'static str, Page>>>);

impl Debug {
    /// Offers a page, made anew whenever it is asked for.
    pub fn offer(&self, name: &'static str, page: impl Fn() -> String + Send + Sync + 'static) {
        self.0.write().insert(name, Arc::new(page));
    }

    /// The names of all pages, in order.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.read().keys().copied().collect()
    }

    /// A page, if it is offered.
    pub fn page(&self, name: &str) -> Option<String> {
        let page = self.0.read().get(name).map(Arc::clone);
        page.map(|p| p())
    }
}

impl fmt::Debug for Debug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
