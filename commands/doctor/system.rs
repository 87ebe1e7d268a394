//! Program and machine: system, processor, memory, limits, and whether the ports are free.

use std::{
    env, fs,
    io::ErrorKind,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    time::Duration,
};

use indicatif::BinaryBytes;
use ovms::client::{Address, Api, Client, ClientOptions, ServerMetadata, speaks_tls};
use rustix::process::{Resource, getrlimit};

use super::{Check, Status, holder::PortHolder};
use crate::error::Failure;

/// Processor features used by runtimes, in the words of Linux.
const FEATURES: &str = "sse4_2 avx avx2 f16c avx512f avx512_vnni avx_vnni avx512_bf16 amx_tile \
    amx_int8 amx_bf16 asimd sve i8mm";

/// Minimum limit of open files for a busy server: each connection takes one.
const FILES: u64 = 1024;

/// Free memory below which models may not load.
const MEMORY: u64 = 256 << 20;

/// Checks the program and the machine.
pub(super) fn all() -> Vec<Check> {
    vec![program(), system(), processor(), memory(), files()]
}

fn program() -> Check {
    let with = if ovms::python::AVAILABLE {
        "with"
    } else {
        "without"
    };
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    let (version, os, arch) = (
        env!("CARGO_PKG_VERSION"),
        env::consts::OS,
        env::consts::ARCH,
    );
    let text = format!("{version} for {os} {arch}, {with} Python nodes, {profile} build");
    let check = Check::new("ovms", Status::Ok, text);
    match env::current_exe() {
        Ok(path) => check.detail(path.display().to_string()),
        Err(_) => check,
    }
}

fn system() -> Check {
    let release = read("/etc/os-release");
    let name = release.lines().find_map(|line| {
        let name = line.strip_prefix("PRETTY_NAME=")?;
        Some(name.trim_matches(['"', '\'']).to_owned())
    });
    let kernel = read("/proc/sys/kernel/osrelease");
    let marks = ["/.dockerenv", "/run/.containerenv"];
    let is_container = marks.iter().any(|mark| Path::new(mark).exists())
        || env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let name = name.as_deref().unwrap_or("an unknown system");
    let container = if is_container { ", in a container" } else { "" };
    let text = format!("{name}, kernel {}{container}", kernel.trim());
    Check::new("system", Status::Ok, text)
}

fn processor() -> Check {
    let info = read("/proc/cpuinfo");
    let field = |name: &str| {
        info.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    let model = field("model name").unwrap_or(env::consts::ARCH);
    let has = field("flags").or_else(|| field("Features"));
    let has: Vec<&str> = has.unwrap_or_default().split_whitespace().collect();
    let features = FEATURES.split(' ').filter(|it| has.contains(it));
    let features: Vec<&str> = features.collect();
    let is_core = |line: &&str| line.starts_with("processor");
    let all = info.lines().filter(is_core).count();
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = match all {
        all if all > usable => format!("{usable} of {all} cores for this process"),
        _ => crate::ui::counted(usable, "core"),
    };
    let check = Check::new("processor", Status::Ok, format!("{model}, {cores}"));
    match features.is_empty() {
        true => check,
        false => check.detail(features.join(" ")),
    }
}

fn memory() -> Check {
    let info = read("/proc/meminfo");
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name))?;
        let number = line.split_whitespace().nth(1)?.parse::<u64>().ok()?;
        Some(number * 1024)
    };
    let (Some(all), Some(free)) = (field("MemTotal:"), field("MemAvailable:")) else {
        return Check::new("memory", Status::Note, "unknown");
    };
    let bounds = Bounds::of(Path::new("/sys/fs/cgroup"), &read("/proc/self/cgroup"));
    let mut text = format!("{} free of {}", BinaryBytes(free), BinaryBytes(all));
    if let Some(memory) = bounds.memory.filter(|memory| *memory < all) {
        text.extend(["; this process may use ", &BinaryBytes(memory).to_string()]);
    }
    if let Some(processors) = bounds.processors {
        text.extend(["; processors are limited to ", &format!("{processors:.1}")]);
    }
    let least = free.min(bounds.memory.unwrap_or(u64::MAX));
    match least < MEMORY {
        false => Check::new("memory", Status::Ok, text),
        true => Check::new("memory", Status::Warn, text)
            .hint("models may not load; reduce --nireq or the number of streams"),
    }
}

fn files() -> Check {
    let limit = getrlimit(Resource::Nofile);
    let text = |number: Option<u64>| number.map_or("any number".to_owned(), |it| it.to_string());
    let (current, maximum) = (text(limit.current), text(limit.maximum));
    let text = format!("{current} may be open at once (hard limit: {maximum})");
    match limit.current.is_some_and(|current| current < FILES) {
        false => Check::new("files", Status::Ok, text),
        true => Check::new("files", Status::Warn, text).hint(
            "each connection takes one: raise the limit with `ulimit -n 8192`, or lower \
             --max-connections",
        ),
    }
}

/// Limits of this process's control group.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Bounds {
    memory: Option<u64>,
    processors: Option<f64>,
}

impl Bounds {
    /// Reads the limits of a group and of its ancestors; the lowest counts.
    fn of(root: &Path, groups: &str) -> Self {
        let mut bounds = Self::default();
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
                continue;
            };
            let root = match controllers {
                "" => root.to_owned(),
                one if one.split(',').any(|it| it == "memory" || it == "cpu") => root.join(one),
                _ => continue,
            };
            let group = root.join(path.trim_start_matches('/'));
            for folder in group
                .ancestors()
                .take_while(|folder| folder.starts_with(&root))
            {
                bounds.narrow(folder);
            }
        }
        bounds
    }

    fn narrow(&mut self, folder: &Path) {
        let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let number = |name: &str| text(name)?.trim().parse::<f64>().ok();
        let memory = ["memory.max", "memory.limit_in_bytes"];
        let memory = memory.into_iter().find_map(|name| {
            // Without a limit the older interface reports the largest number of pages.
            text(name)?
                .trim()
                .parse::<u64>()
                .ok()
                .filter(|it| *it < 1 << 60)
        });
        self.memory = [self.memory, memory].into_iter().flatten().min();
        let newer = text("cpu.max").and_then(|text| {
            let (quota, period) = text.trim().split_once(' ')?;
            Some((quota.parse().ok()?, period.parse().ok()?))
        });
        let older = || Some((number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?));
        if let Some((quota, period)) = newer.or_else(older)
            && quota > 0.0
            && period > 0.0
        {
            let processors = quota / period;
            self.processors = Some(self.processors.map_or(processors, |it| it.min(processors)));
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Time limit for a response.
const LIMIT: Duration = Duration::from_secs(2);

/// Checks both ports.
pub(super) fn ports(grpc: u16, rest: u16) -> Result<[Check; 2], Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(async {
        let of_grpc = check("gRPC port", "--port", grpc, Api::KserveGrpc);
        if grpc == rest && rest != 0 {
            return [of_grpc.await, same_port(rest)];
        }
        let of_rest = check(REST_PORT, "--rest-port", rest, Api::KserveRest);
        futures::join!(of_grpc, of_rest).into()
    }))
}

const REST_PORT: &str = "REST port";

/// Reports a REST port that equals the gRPC port.
fn same_port(port: u16) -> Check {
    let text = format!("{port} is also the gRPC port; each needs its own");
    Check::new(REST_PORT, Status::Warn, text).hint("choose another port with --rest-port")
}

async fn check(name: &'static str, flag: &str, port: u16, api: Api) -> Check {
    match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)) {
        Ok(_) => return Check::new(name, Status::Ok, format!("{port} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {}
        Err(error) => {
            let text = format!("{port} cannot be opened: {error}");
            let hint = format!("serve on another port with {flag}");
            return Check::new(name, Status::Warn, text).hint(hint);
        }
    }
    let holder = PortHolder::of(port);
    let described = holder.as_ref().map(PortHolder::described);
    let options = ClientOptions {
        address: match Address::parse(&format!("127.0.0.1:{port}"), api) {
            Ok(address) => address,
            Err(error) => return Check::new(name, Status::Warn, error.to_string()),
        },
        api,
        timeout: LIMIT,
        headers: reqwest::header::HeaderMap::new(),
        concurrency: 1,
        tls: None,
    };
    if let Some(server) = ask(&options).await {
        let not = if server.is_ready { "" } else { "not " };
        let (name_of, version) = (&server.name, &server.version);
        let text = format!("{port} is in use: {name_of} {version} answers, {not}ready");
        let check = Check::new(name, Status::Note, text).details(described);
        return check.hint(format!("another server needs another port: {flag}"));
    }
    if let Some(with) = speaks_tls(&options).await {
        let text = format!("{port} is in use by a server with TLS");
        let hint = format!("check it with --url {with}");
        return Check::new(name, Status::Note, text)
            .details(described)
            .hint(hint);
    }
    let other = tokio::time::timeout(LIMIT * 2, Client::other_api(&options)).await;
    let text = match other.ok().flatten() {
        Some(other) => format!("{port} is in use: what answers speaks {other}, not {api}"),
        None => format!("{port} is in use by something other than a model server"),
    };
    let check = Check::new(name, Status::Warn, text).details(described);
    check.hint(match holder.and_then(|it| it.process()) {
        Some(process) => format!("serve on another port with {flag}, or end process {process}"),
        None => format!(
            "serve on another port with {flag}; `ss -ltnp 'sport = :{port}'` shows who uses this one"
        ),
    })
}

async fn ask(options: &ClientOptions) -> Option<ServerMetadata> {
    let asked = async {
        let client = Client::connect(options).await.ok()?;
        client.server_metadata().await.ok()?
    };
    tokio::time::timeout(LIMIT, asked).await.ok()?
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Bounds;

    #[test]
    fn the_narrowest_group_counts() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("slice/unit");
        fs::create_dir_all(&group).unwrap();
        fs::write(root.path().join("slice/memory.max"), "1000\n").unwrap();
        fs::write(group.join("memory.max"), "max\n").unwrap();
        fs::write(group.join("cpu.max"), "150000 100000\n").unwrap();
        let bounds = Bounds::of(root.path(), "0::/slice/unit\n");
        assert_eq!(bounds.memory, Some(1000));
        assert_eq!(bounds.processors, Some(1.5));
    }

    #[test]
    fn the_older_interface_is_known() {
        let root = tempfile::tempdir().unwrap();
        let memory = root.path().join("memory/box");
        fs::create_dir_all(&memory).unwrap();
        fs::write(
            memory.join("memory.limit_in_bytes"),
            "9223372036854771712\n",
        )
        .unwrap();
        let cpu = root.path().join("cpu,cpuacct/box");
        fs::create_dir_all(&cpu).unwrap();
        fs::write(cpu.join("cpu.cfs_quota_us"), "-1").unwrap();
        fs::write(cpu.join("cpu.cfs_period_us"), "100000").unwrap();
        let groups = "5:memory:/box\n3:cpu,cpuacct:/box\n1:name=systemd:/box\nodd\n";
        assert_eq!(Bounds::of(root.path(), groups), Bounds::default());
        fs::write(memory.join("memory.limit_in_bytes"), "4096").unwrap();
        assert_eq!(Bounds::of(root.path(), groups).memory, Some(4096));
    }
}
