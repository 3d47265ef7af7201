//! The programs of the control plane: found where the environment says, or built once from source.
//!
//! `tools/controlplane/go.mod` pins them, and its versions name the cache folder, so that another
//! version is another folder. Nobody serves these programs as binaries through a package registry;
//! their source comes through the Go module proxy.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// etcd.
    pub etcd: PathBuf,
    /// kube-apiserver.
    pub apiserver: PathBuf,
    /// kube-controller-manager; `KUBEBUILDER_ASSETS` usually has none.
    pub manager: Option<PathBuf>,
}

/// How a build goes.
#[derive(Clone, Debug)]
pub enum Progress {
    /// Something has to be built: where to, and how many programs of the three.
    Begin {
        /// The cache folder.
        folder: PathBuf,
        /// How many programs are missing.
        programs: usize,
    },
    /// Another process is building; this one waits for it.
    Waiting,
    /// A program is being built, for this long. Given about five times a second.
    Building {
        /// The program's name.
        program: &'static str,
        /// Which one of how many this is, from 1.
        number: usize,
        /// How many programs are built.
        of: usize,
        /// How long it has been going on.
        elapsed: Duration,
        /// About how long it takes on two cores with an empty Go cache, downloads aside.
        usually: Duration,
    },
    /// A program is done.
    Built {
        /// The program's name.
        program: &'static str,
        /// How long it took.
        took: Duration,
    },
}

/// One program and how it is built.
struct Program {
    name: &'static str,
    package: &'static str,
    usually: Duration,
}

const PROGRAMS: [Program; 3] = [
    Program {
        name: "etcd",
        package: "go.etcd.io/etcd/server/v3",
        usually: Duration::from_secs(46),
    },
    Program {
        name: "kube-apiserver",
        package: "k8s.io/kubernetes/cmd/kube-apiserver",
        usually: Duration::from_mins(3),
    },
    Program {
        name: "kube-controller-manager",
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
        usually: Duration::from_secs(54),
    },
];

/// The versions that the Go module pins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// Of Kubernetes, such as `v1.36.3`.
    pub kubernetes: String,
    /// Of etcd, such as `v3.6.8`.
    pub etcd: String,
}

impl Versions {
    /// The versions in `tools/controlplane/go.mod`.
    ///
    /// # Errors
    /// When the file cannot be read or pins none.
    pub fn pinned() -> Result<Self> {
        let path = module_folder().join("go.mod");
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text)
    }

    fn parse(go_mod: &str) -> Result<Self> {
        let version_of = |module: &str| {
            go_mod
                .lines()
                .filter_map(|line| line.trim().strip_prefix(module)?.strip_prefix(' '))
                .find_map(|rest| rest.split(' ').next())
                .map(str::to_owned)
                .with_context(|| format!("go.mod pins no {module}"))
        };
        Ok(Self {
            kubernetes: version_of("k8s.io/kubernetes")?,
            etcd: version_of("go.etcd.io/etcd/server/v3")?,
        })
    }

    /// The linker's arguments: without them the server calls itself v0.0.0.
    fn linker_arguments(&self) -> String {
        let mut numbers = self.kubernetes.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or("0"), numbers.next().unwrap_or("0"));
        let base = "k8s.io/component-base/version";
        let version = &self.kubernetes;
        format!(
            "-s -w -X {base}.gitVersion={version} -X {base}.gitMajor={major} -X {base}.gitMinor={minor}"
        )
    }
}

fn module_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../controlplane")
}

/// The folder for what is built once and kept: `$XDG_CACHE_HOME/address-controller` or the same below `~/.cache`.
///
/// # Errors
/// When neither variable is set.
pub fn cache_folder() -> Result<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("address-controller"))
}

/// Finds the programs, and builds those that are missing. Safe to call from several processes at once.
///
/// Blocks while it builds: five minutes with an empty Go cache, on two cores.
///
/// # Errors
/// When `KUBEBUILDER_ASSETS` lacks a program, or one is missing and cannot be built.
pub fn find_or_build(progress: &mut dyn FnMut(Progress)) -> Result<Binaries> {
    if let Some(folder) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|v| !v.is_empty()) {
        return assets(Path::new(&folder));
    }
    let versions = Versions::pinned()?;
    let key = format!("{}-etcd-{}", versions.kubernetes, versions.etcd);
    let folder = cache_folder()?.join("controlplane").join(key);
    if !missing(&folder).is_empty() {
        build(&folder, &versions, progress)?;
    }
    Ok(Binaries {
        etcd: folder.join("etcd"),
        apiserver: folder.join("kube-apiserver"),
        manager: Some(folder.join("kube-controller-manager")),
    })
}

/// As [`find_or_build`], telling standard error how it goes.
///
/// # Errors
/// As [`find_or_build`].
pub fn find_or_build_saying_so() -> Result<Binaries> {
    find_or_build(&mut |progress| match progress {
        Progress::Begin { folder, programs } => eprintln!(
            "Building {programs} programs of a control plane into {} (once; about 5 minutes on two cores, and 700 MB of sources to download).",
            folder.display()
        ),
        Progress::Waiting => eprintln!("Another process is building the control plane: waiting."),
        Progress::Building { .. } => {}
        Progress::Built { program, took } => eprintln!("  {program}: {} s", took.as_secs()),
    })
}

fn assets(folder: &Path) -> Result<Binaries> {
    let find = |name: &str| Some(folder.join(name)).filter(|path| path.is_file());
    let need = |name: &str| {
        find(name).with_context(|| {
            format!("KUBEBUILDER_ASSETS is {}, and there is no {name} in it", folder.display())
        })
    };
    Ok(Binaries {
        etcd: need("etcd")?,
        apiserver: need("kube-apiserver")?,
        manager: find("kube-controller-manager"),
    })
}

fn missing(folder: &Path) -> Vec<&'static Program> {
    PROGRAMS.iter().filter(|p| !folder.join(p.name).is_file()).collect()
}

fn build(folder: &Path, versions: &Versions, progress: &mut dyn FnMut(Progress)) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let lock = File::create(folder.join(".lock"))?;
    if lock.try_lock().is_err() {
        progress(Progress::Waiting);
        lock.lock()?;
    }
    // Looked at again under the lock: somebody else may have built them meanwhile.
    let programs = missing(folder);
    if programs.is_empty() {
        return Ok(());
    }
    check_go()?;
    progress(Progress::Begin { folder: folder.to_owned(), programs: programs.len() });
    for (index, program) in programs.iter().enumerate() {
        let begin = Instant::now();
        build_one(program, folder, versions, &mut |elapsed| {
            progress(Progress::Building {
                program: program.name,
                number: index + 1,
                of: programs.len(),
                elapsed,
                usually: program.usually,
            });
        })?;
        progress(Progress::Built { program: program.name, took: begin.elapsed() });
    }
    Ok(())
}

fn check_go() -> Result<()> {
    match Command::new("go").arg("version").stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => bail!(
            "Go is needed to build the control plane, and `go version` does not run. Install Go 1.26 or newer \
             (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver."
        ),
    }
}

fn build_one(
    program: &Program,
    folder: &Path,
    versions: &Versions,
    tick: &mut dyn FnMut(Duration),
) -> Result<()> {
    let name = program.name;
    let unfinished = folder.join(format!(".{name}.unfinished"));
    let log_path = folder.join(format!(".{name}.log"));
    let log = File::create(&log_path)?;
    let begin = Instant::now();
    let mut go = Command::new("go")
        .args(["build", "-ldflags", &versions.linker_arguments(), "-o"])
        .arg(&unfinished)
        .arg(program.package)
        .current_dir(module_folder())
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("starting go build")?;
    let status = loop {
        match go.try_wait()? {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(200)),
        }
        tick(begin.elapsed());
    };
    if !status.success() {
        let output = fs::read_to_string(&log_path).unwrap_or_default();
        bail!("go build of {name} failed ({status}):\n{output}");
    }
    // A program is there whole or not at all.
    fs::rename(&unfinished, folder.join(name)).context("moving what was built into place")?;
    let _ = fs::remove_file(&log_path);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_come_from_go_mod() {
        let text = "require (\n\tgo.etcd.io/etcd/server/v3 v3.6.8 // indirect\n\tk8s.io/kubernetes v1.36.3 // indirect\n)";
        let versions = Versions::parse(text).unwrap();
        assert_eq!(versions, Versions { kubernetes: "v1.36.3".into(), etcd: "v3.6.8".into() });
        assert!(versions.linker_arguments().contains("gitMajor=1 "));
        assert!(versions.linker_arguments().ends_with("gitMinor=36"));
        assert!(Versions::parse("module x").is_err());
        Versions::pinned().unwrap();
    }

    #[test]
    fn assets_without_a_program_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("etcd"), "").unwrap();
        let error = assets(folder.path()).unwrap_err().to_string();
        assert!(error.contains("kube-apiserver"), "{error}");
        fs::write(folder.path().join("kube-apiserver"), "").unwrap();
        assert!(assets(folder.path()).unwrap().manager.is_none());
    }
}
