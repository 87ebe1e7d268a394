//! Links tests of the library, and the program, with the library of the Python interpreter.
//! Both members build with it.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=../src/build.rs");
    // For tests and benches: cargo names only the folder of the member.
    let member = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let root = member.parent().ok_or("a member is below the root")?;
    println!("cargo:rustc-env=WORKSPACE_ROOT={}", root.display());
    // The program finds the library of the interpreter that it was built with.
    #[cfg(feature = "python")]
    {
        python_library()?;
        // Where the system looks anyway, a path would only be in the way of packages.
        if !is_of_system() {
            pyo3_build_config::add_libpython_rpath_link_args();
        }
    }
    Ok(())
}

/// Returns whether the library of the interpreter is in a folder that all programs search.
#[cfg(feature = "python")]
fn is_of_system() -> bool {
    let folder = pyo3_build_config::get().lib_dir();
    folder.is_some_and(|folder| ["/usr/lib", "/lib"].iter().any(|it| folder.starts_with(it)))
}

/// Checks that the interpreter has a library to link with: else the linker's words for it come at
/// the end of the build.
#[cfg(feature = "python")]
fn python_library() -> Result<(), String> {
    let python = pyo3_build_config::get();
    let (Some(folder), Some(name)) = (python.lib_dir(), python.lib_name()) else {
        return Ok(());
    };
    let has = |end: &str| {
        std::path::PathBuf::from(folder)
            .join(format!("lib{name}.{end}"))
            .exists()
    };
    if has("so") || has("dylib") || has("a") {
        return Ok(());
    }
    let interpreter = python.executable().unwrap_or("Python");
    Err(format!(
        "{interpreter} has no library to link with: expected lib{name}.so in {folder}; install \
         Debian's libpython3-dev, name another interpreter with PYO3_PYTHON, or build with \
         --no-default-features, which leaves Python nodes out"
    ))
}
