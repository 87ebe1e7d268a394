//! Files of security that the system does not give: certificate, key, authorities, identities, and audit log.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    process::Command,
};

use crate::support::{certificates::Certificates, cli, model};

/// Runs a server that does not start; returns the failure without the folder.
fn refused(mut command: Command, made: &Certificates, flags: &[&str]) -> String {
    let folder = made.folder.path().display().to_string();
    command
        .args(["serve", "--model_name", "dummy", "--model_path"])
        .arg(model("dummy"))
        .args(["--port", "1", "--grpc_bind_address", "127.0.0.1"])
        .args(flags.iter().map(|flag| flag.replace("DIR", &folder)));
    cli::run(&mut command).failure().replace(&folder, "DIR")
}

#[test]
fn files_that_may_not_be_read_are_named_with_whom_to_let_read_them() {
    let made = Certificates::new();
    made.write("a", 90);
    let closed = made.path("closed");
    fs::write(&closed, "").unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
    let with = |flags: &[&str]| refused(cli::without_rights(&closed), &made, flags);
    insta::assert_snapshot!(with(&["--tls_cert", "DIR/closed", "--tls_key", "DIR/a.key"]), @"
    exit 1
    error: Failed to start the server with TLS
      caused by: cannot use --tls-cert DIR/closed
      caused by: cannot read the file
      caused by: Permission denied (os error 13)
    hint: let the user that runs ovms read DIR/closed
    ");
    insta::assert_snapshot!(with(&["--tls_cert", "DIR/a.pem", "--tls_key", "DIR/closed"]), @"
    exit 1
    error: Failed to start the server with TLS
      caused by: cannot use --tls-key DIR/closed
      caused by: cannot read the file
      caused by: Permission denied (os error 13)
    hint: let the user that runs ovms read DIR/closed
    ");
    let pair = ["--tls_cert", "DIR/a.pem", "--tls_key", "DIR/a.key"];
    insta::assert_snapshot!(with(&[&pair[..], &["--tls_client_ca", "DIR/closed"]].concat()), @"
    exit 1
    error: Failed to start the server with TLS
      caused by: cannot use --tls-client-ca DIR/closed
      caused by: cannot read the file
      caused by: Permission denied (os error 13)
    hint: let the user that runs ovms read DIR/closed
    ");
    insta::assert_snapshot!(with(&["--auth", "DIR/closed"]), @"
    exit 1
    error: Failed to start the server with --auth
      caused by: cannot read --auth DIR/closed
      caused by: Permission denied (os error 13)
    hint: let the user that runs ovms read DIR/closed
    ");
    insta::assert_snapshot!(with(&["--audit_log", "DIR/closed"]), @"
    exit 1
    error: Failed to open the audit log DIR/closed
      caused by: Permission denied (os error 13)
    hint: let the user that runs ovms write to DIR/closed
    ");
    let auth = made.path("auth.toml");
    let issuer = "[[jwt]]\nissuer = \"x\"\naudience = \"ovms\"\njwks = \"closed\"\n\n\
                  [[identity]]\nname = \"a\"\ntokens = [{ subject = \"*\" }]\ninfer = [\"*\"]\n";
    fs::write(&auth, issuer).unwrap();
    insta::assert_snapshot!(with(&["--auth", "DIR/auth.toml"]), @"
    exit 1
    error: cannot use --auth DIR/auth.toml
      DIR/auth.toml:4:8: cannot read the key set DIR/closed: Permission denied (os error 13) (let the user that runs ovms read DIR/closed)
    ");
}

#[test]
fn folders_in_the_place_of_files_are_named() {
    let made = Certificates::new();
    made.write("a", 90);
    fs::create_dir(made.path("folder")).unwrap();
    let with = |flags: &[&str]| refused(cli::command(), &made, flags);
    insta::assert_snapshot!(with(&["--tls_cert", "DIR/folder", "--tls_key", "DIR/a.key"]), @"
    exit 1
    error: Failed to start the server with TLS
      caused by: cannot use --tls-cert DIR/folder
      caused by: cannot read the file
      caused by: Is a directory (os error 21)
    hint: check the path
    ");
    insta::assert_snapshot!(with(&["--auth", "DIR/folder"]), @"
    exit 1
    error: Failed to start the server with --auth
      caused by: cannot read --auth DIR/folder
      caused by: Is a directory (os error 21)
    hint: check the path; `ovms key new` prints the lines of an identity
    ");
    insta::assert_snapshot!(with(&["--audit_log", "DIR/folder"]), @"
    exit 1
    error: Failed to open the audit log DIR/folder
      caused by: Is a directory (os error 21)
    hint: name a file, such as DIR/folder/audit.log
    ");
    insta::assert_snapshot!(with(&["--audit_log", "DIR/none/audit"]), @"
    exit 1
    error: Failed to open the audit log DIR/none/audit
      caused by: No such file or directory (os error 2)
    hint: create its folder, or choose another path
    ");
}
