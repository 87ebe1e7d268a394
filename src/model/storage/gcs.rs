//! Google Cloud Storage: credentials and, for emulators, the endpoint.
//!
//! `GOOGLE_APPLICATION_CREDENTIALS`, as with the C++ server; else what `gcloud auth
//! application-default login` has left; else anonymous access, and then the identity that Google's
//! machines have.

use std::{path::PathBuf, sync::Arc};

use object_store::{
    StaticCredentialProvider,
    gcp::{GcpCredential, GoogleCloudStorageBuilder},
};

use super::{
    StorageEnvironment,
    access::{Found, Identity, unreadable},
    listing::FileIdentity,
    location::Location,
};
use crate::error::Result;

const GOOGLE: &str = "https://storage.googleapis.com";

pub(super) fn find(location: &Location, environment: &StorageEnvironment) -> Result<Found> {
    let mut builder = GoogleCloudStorageBuilder::new().with_bucket_name(&location.bucket);
    let emulator = environment.first(&["STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_EMULATOR_ENDPOINT"]);
    let server = match emulator.map(|server| server.trim_end_matches('/')) {
        Some(server) if server.contains("://") => server.to_owned(),
        Some(server) => format!("http://{server}"),
        None => GOOGLE.to_owned(),
    };
    builder = builder.with_base_url(&server);
    let is_google = server == GOOGLE;
    let file = credentials(environment, is_google)?;
    let credentials = file.is_some();
    let content = file
        .as_ref()
        .and_then(|file| std::fs::read_to_string(file).ok());
    Ok(Found {
        server,
        region: String::new(),
        credentials,
        digest: FileIdentity::of(content),
        ask_machine: is_google,
        open: Box::new(move |setting, identity| {
            let mut builder = builder
                .clone()
                .with_http_connector(setting.connector.clone())
                .with_retry(setting.retries.clone());
            if let (Identity::Given, Some(file)) = (identity, &file) {
                builder = builder.with_application_credentials(file.display().to_string());
            }
            if identity == Identity::Anonymous {
                // Without these the library would look for some of its own.
                let nobody = GcpCredential {
                    bearer: String::new(),
                };
                builder = builder
                    .with_skip_signature(true)
                    .with_credentials(Arc::new(StaticCredentialProvider::new(nobody)));
            }
            Ok(Arc::new(builder.build()?))
        }),
    })
}

/// Finds the file of credentials, and sees that it can be read. Those that the tools of a person have left are
/// sent to no server but Google's, unless the variable names the file.
fn credentials(environment: &StorageEnvironment, is_google: bool) -> Result<Option<PathBuf>> {
    const VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
    if let Some(path) = environment.get(VARIABLE).map(PathBuf::from) {
        std::fs::File::open(&path).map_err(|error| unreadable(&path, VARIABLE, error))?;
        return Ok(Some(path));
    }
    let of_the_tools = environment
        .path("HOME")
        .filter(|_| is_google)
        .map(|home| home.join(".config/gcloud/application_default_credentials.json"));
    Ok(of_the_tools.filter(|path| path.is_file()))
}

#[cfg(test)]
mod tests {
    use super::{Location, StorageEnvironment, find};

    #[test]
    fn a_file_of_credentials_that_is_not_there_is_named() {
        let location = Location::parse("gs://b/p").unwrap();
        let environment: StorageEnvironment =
            [("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")]
                .into_iter()
                .collect();
        let refused = find(&location, &environment).err().unwrap();
        assert_eq!(
            refused.to_string(),
            "cannot read /nowhere/key.json, which `GOOGLE_APPLICATION_CREDENTIALS` names"
        );
    }

    #[test]
    fn credentials_of_the_tools_are_for_google_alone() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".config/gcloud");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("application_default_credentials.json"), "{}").unwrap();
        let location = Location::parse("gs://b/p").unwrap();
        let home = home.path().display().to_string();
        let has_credentials = |more: &[(&str, &str)]| {
            let own = [("HOME", home.as_str())];
            let environment = own.iter().chain(more).copied().collect();
            find(&location, &environment).unwrap().credentials
        };
        assert!(has_credentials(&[]));
        assert!(!has_credentials(&[(
            "STORAGE_EMULATOR_HOST",
            "localhost:9023"
        )]));
    }

    #[test]
    fn the_server_is_googles_or_the_emulator() {
        let location = Location::parse("gs://b/p").unwrap();
        let server = |variables: &[(&str, &str)]| {
            let environment = variables.iter().copied().collect();
            find(&location, &environment).unwrap().server
        };
        assert_eq!(server(&[]), "https://storage.googleapis.com");
        assert_eq!(
            server(&[("STORAGE_EMULATOR_HOST", "localhost:9023")]),
            "http://localhost:9023"
        );
    }
}
