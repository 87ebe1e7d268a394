//! Builds what the library carries: the compiled part of the package for Python. The program builds with it too.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=../src/build.rs");
    // For tests and benches: cargo names only the folder of the member.
    let member = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let root = member.parent().ok_or("a member is below the root")?;
    println!("cargo:rustc-env=WORKSPACE_ROOT={}", root.display());
    if env::var_os("CARGO_FEATURE_PYTHON").is_some() && env::var("CARGO_PKG_NAME")? == "ovms-engine"
    {
        module(root)?;
    }
    Ok(())
}

/// Builds the module of the package, in a target folder of its own: this one is locked by who runs this.
fn module(root: &Path) -> Result<(), Box<dyn std::error::Error>> {
    for path in ["pyovms/Cargo.toml", "pyovms/src", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", root.join(path).display());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let carried = out.join("_pyovms.abi3.so");
    // Who builds for other systems has built it for them as well.
    println!("cargo:rerun-if-env-changed=OVMS_PYTHON_MODULE");
    if let Some(built) = env::var_os("OVMS_PYTHON_MODULE").filter(|path| !path.is_empty()) {
        println!("cargo:rerun-if-changed={}", Path::new(&built).display());
        std::fs::copy(built, carried)?;
        return Ok(());
    }
    // TARGET/PROFILE/build/PACKAGE/out
    let target = out
        .ancestors()
        .nth(4)
        .ok_or("cargo has another layout")?
        .join("pyovms");
    let profile = match target.parent().and_then(Path::file_name) {
        Some(name) if name == "demo" => "demo",
        _ => "release",
    };
    let mut command = Command::new(env::var("CARGO")?);
    command
        .current_dir(root)
        .args(["rustc", "--profile", profile, "--locked", "--quiet"])
        .args(["--package", "pyovms"])
        .args([
            "--features",
            "extension",
            "--crate-type",
            "cdylib",
            "--target-dir",
        ])
        .arg(&target)
        .args(["--", "-C", "strip=symbols"])
        // It needs none: it is for any that is new enough.
        .env("PYO3_NO_PYTHON", "1");
    // What is said of the build of the library is not for this one.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let is_of_build = name.starts_with("CARGO") && name != "CARGO_HOME" && name != "CARGO";
        if is_of_build || name.starts_with("RUSTC") || name == "RUSTFLAGS" {
            command.env_remove(&name);
        }
    }
    if !command.status()?.success() {
        return Err("the module for Python does not build".into());
    }
    std::fs::copy(target.join(profile).join("libpyovms.so"), carried)?;
    Ok(())
}
