//! A test's own corner of the control plane that its binary shares.

use std::sync::atomic::{AtomicU32, Ordering};

use address_controller::api::{IPAddress, IPAddressClaim, IPAddressClass};
use anyhow::Result;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{
    controlplane::{ControlPlane, Options},
    make,
    wait::{BOUNDED, try_eventually},
};

/// Tests side by side, or one alone.
static TURN: RwLock<()> = RwLock::const_new(());

/// The control plane of this test binary, with the three kinds installed. The first caller starts it.
///
/// # Errors
/// When it cannot be started.
pub async fn shared() -> Result<&'static ControlPlane> {
    static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
    SHARED
        .get_or_try_init(|| async {
            let controlplane = ControlPlane::start(Options::default()).await?;
            controlplane.install_crds().await?;
            Ok(controlplane)
        })
        .await
}

/// Whose turn it is, for as long as the sandbox lives.
#[expect(dead_code, reason = "the guards are held, not read")]
enum Turn {
    Shared(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

/// A namespace and names that no other test uses, on the shared control plane.
pub struct Sandbox {
    controlplane: &'static ControlPlane,
    client: Client,
    name: String,
    _turn: Turn,
}

impl Sandbox {
    /// A corner beside other tests': for those that run no controller, or share one.
    ///
    /// # Errors
    /// When the control plane cannot be started or refuses the namespace.
    pub async fn new(test: &str) -> Result<Self> {
        let turn = Turn::Shared(TURN.read().await);
        Self::make(test, turn).await
    }

    /// The whole cluster, emptied of the three kinds: for a test that starts a controller of its own,
    /// which would see to other tests' objects too, or that breaks the control plane. Other tests wait.
    ///
    /// # Errors
    /// When the control plane cannot be started or emptied, or refuses the namespace.
    pub async fn alone(test: &str) -> Result<Self> {
        let turn = Turn::Alone(TURN.write().await);
        let this = Self::make(test, turn).await?;
        wipe(&this.client).await?;
        Ok(this)
    }

    async fn make(test: &str, turn: Turn) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let controlplane = shared().await?;
        let client = controlplane.admin()?;
        let name = format!("{test}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
        Ok(Self { controlplane, client, name, _turn: turn })
    }

    /// The control plane.
    pub fn controlplane(&self) -> &'static ControlPlane {
        self.controlplane
    }

    /// A client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The sandbox's namespace.
    pub fn namespace(&self) -> &str {
        &self.name
    }

    /// A cluster-wide name that is this test's own, for classes and addresses.
    pub fn name(&self, short: &str) -> String {
        format!("{}-{short}", self.name)
    }

    /// The classes of the cluster.
    pub fn classes(&self) -> Api<IPAddressClass> {
        Api::all(self.client())
    }

    /// The addresses of the cluster.
    pub fn addresses(&self) -> Api<IPAddress> {
        Api::all(self.client())
    }

    /// The claims in the sandbox's namespace.
    pub fn claims(&self) -> Api<IPAddressClaim> {
        Api::namespaced(self.client(), self.namespace())
    }

    /// Creates any object as it is.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn create<K>(&self, object: &K) -> kube::Result<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
    {
        create(&self.client, object).await
    }

    /// Creates a class whose name is made this test's own.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn class(&self, short: &str) -> kube::Result<IPAddressClass> {
        self.create(&make::class(&self.name(short))).await
    }

    /// Creates an address whose name, and whose class's name, are made this test's own.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn address(&self, short: &str, class: &str, ip: &str) -> kube::Result<IPAddress> {
        self.create(&make::address(&self.name(short), &self.name(class), ip)).await
    }

    /// Creates a claim in the sandbox's namespace, for a class whose name is made this test's own.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn claim(&self, name: &str, class: &str) -> kube::Result<IPAddressClaim> {
        self.create(&make::claim(self.namespace(), name, &self.name(class))).await
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.controlplane.keep_logs();
        }
    }
}

/// Creates an object where its metadata says.
///
/// # Errors
/// When the API server refuses it.
pub async fn create<K>(client: &Client, object: &K) -> kube::Result<K>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let url = K::url_path(&(), object.meta().namespace.as_deref());
    let request = kube::core::Request::new(url)
        .create(
            &PostParams::default(),
            serde_json::to_vec(object).map_err(kube::Error::SerdeError)?,
        )
        .map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}

/// Deletes every object of the three kinds, finalizers or not, and waits until they are gone.
///
/// # Errors
/// When the API server refuses it, or is not done within a bounded time.
pub async fn wipe(client: &Client) -> Result<()> {
    // Claims first: nothing then holds an address. All of them are seen, whatever is in them.
    wipe_kind::<IPAddressClaim>(client).await?;
    wipe_kind::<IPAddress>(client).await?;
    wipe_kind::<IPAddressClass>(client).await
}

async fn wipe_kind<K>(client: &Client) -> Result<()>
where
    K: Resource<DynamicType = ()>,
{
    use kube::core::{ApiResource, DynamicObject};
    let resource = ApiResource::erase::<K>(&());
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    // A test may leave thousands of objects, on a machine that is busy.
    try_eventually(BOUNDED * 12, &format!("no {} to be left", resource.plural), || async {
        let objects = all.list(&ListParams::default()).await?.items;
        for object in &objects {
            let one: Api<DynamicObject> = match object.namespace() {
                Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
                None => all.clone(),
            };
            let name = object.name_any();
            // Gone meanwhile, or changed: the next look tells.
            let _ = one.delete(&name, &DeleteParams::background()).await;
            if !object.finalizers().is_empty() {
                let none = serde_json::json!({ "metadata": { "finalizers": null } });
                let _ = one.patch(&name, &PatchParams::default(), &Patch::Merge(none)).await;
            }
        }
        anyhow::ensure!(objects.is_empty(), "{} left", objects.len());
        anyhow::Ok(())
    })
    .await
}
