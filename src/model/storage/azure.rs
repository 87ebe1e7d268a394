//! Azure Blob Storage: account, credentials and endpoint.
//!
//! `AZURE_STORAGE_CONNECTION_STRING`, as with the C++ server; else the account and its key or
//! signature as Azure's own tools name them, or a service principal; else anonymous access, and
//! then the identity that Azure's machines have.

use std::{collections::BTreeMap, sync::Arc};

use object_store::azure::{AzureConfigKey as Key, MicrosoftAzureBuilder};

use super::{
    StorageEnvironment,
    access::{Found, Identity},
    listing::FileIdentity,
    location::Location,
};
use crate::error::{Error, ErrorKind, Result};

/// Hint for a user whose environment names no account, which Azure needs in any case.
pub(super) const NO_ACCOUNT: &str =
    "set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT for a public container";

/// Meaning of `UseDevelopmentStorage=true`; the account and key of every emulator.
const EMULATOR: &str = "AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1";

/// Variables of a service principal, or of Kubernetes' service accounts, passed on unchanged.
const PRINCIPAL: [(&str, Key); 6] = [
    ("AZURE_CLIENT_ID", Key::ClientId),
    ("AZURE_CLIENT_SECRET", Key::ClientSecret),
    ("AZURE_TENANT_ID", Key::AuthorityId),
    ("AZURE_AUTHORITY_HOST", Key::AuthorityHost),
    ("AZURE_FEDERATED_TOKEN_FILE", Key::FederatedTokenFile),
    ("IDENTITY_ENDPOINT", Key::MsiEndpoint),
];

pub(super) fn find(location: &Location, environment: &StorageEnvironment) -> Result<Found> {
    let account = match environment.get("AZURE_STORAGE_CONNECTION_STRING") {
        Some(text) => Account::parse(text)?,
        None => Account::of(environment)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "no storage account is named"))?,
    };
    let mut builder = MicrosoftAzureBuilder::new()
        .with_container_name(&location.bucket)
        .with_account(&account.name)
        .with_endpoint(account.endpoint.clone());
    let mut credentials = true;
    match (&account.key, &account.signature) {
        (Some(key), _) => builder = builder.with_access_key(key),
        (None, Some(signature)) => builder = builder.with_config(Key::SasKey, signature),
        (None, None) => {
            for (variable, key) in PRINCIPAL {
                if let Some(value) = environment.get(variable) {
                    builder = builder.with_config(key, value);
                }
            }
            credentials = environment
                .first(&["AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"])
                .is_some();
        }
    }
    Ok(Found {
        // An emulator is not where machines have identities.
        ask_machine: account.endpoint.starts_with("https://"),
        server: account.endpoint,
        region: String::new(),
        credentials,
        // Variables stay as they are, and a file of tokens is read whenever one is needed.
        digest: FileIdentity::of([]),
        open: Box::new(move |setting, identity| {
            let builder = builder
                .clone()
                .with_skip_signature(identity == Identity::Anonymous)
                .with_http_connector(setting.connector.clone())
                .with_retry(setting.retries.clone());
            Ok(Arc::new(builder.build()?))
        }),
    })
}

/// A storage account.
#[derive(Debug, PartialEq, Eq)]
struct Account {
    name: String,
    key: Option<String>,
    signature: Option<String>,
    /// Its blob service.
    endpoint: String,
}

impl Account {
    /// Reads a connection string: `Name=value` pairs with `;` between.
    fn parse(text: &str) -> Result<Self> {
        let refuse = |reason| Error::invalid(format!("`AZURE_STORAGE_CONNECTION_STRING` {reason}"));
        let mut pairs = BTreeMap::new();
        for pair in text
            .split(';')
            .map(str::trim)
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| refuse("is not made of `Name=value` pairs with `;` between"))?;
            pairs.insert(name.trim().to_ascii_lowercase(), value.trim());
        }
        if pairs
            .get("usedevelopmentstorage")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
        {
            return Self::parse(EMULATOR);
        }
        let find = |name: &str| pairs.get(name).copied().filter(|value| !value.is_empty());
        let blobs = find("blobendpoint").map(|url| url.trim_end_matches('/').to_owned());
        let name = find("accountname")
            .map(str::to_owned)
            .or_else(|| blobs.as_deref().and_then(account_of))
            .ok_or_else(|| refuse("has no `AccountName`"))?;
        let endpoint = blobs.unwrap_or_else(|| {
            let scheme = find("defaultendpointsprotocol").unwrap_or("https");
            let suffix = find("endpointsuffix").unwrap_or("core.windows.net");
            format!("{scheme}://{name}.blob.{suffix}")
        });
        Ok(Self {
            name,
            key: find("accountkey").map(str::to_owned),
            signature: find("sharedaccesssignature").map(str::to_owned),
            endpoint,
        })
    }

    /// Reads the variables of Azure's own tools.
    fn of(environment: &StorageEnvironment) -> Option<Self> {
        let first = |names: &[&'static str]| environment.first(names).map(str::to_owned);
        let name = first(&["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"])?;
        Some(Self {
            key: first(&[
                "AZURE_STORAGE_KEY",
                "AZURE_STORAGE_ACCOUNT_KEY",
                "AZURE_STORAGE_ACCESS_KEY",
            ]),
            signature: first(&["AZURE_STORAGE_SAS_TOKEN"]),
            endpoint: format!("https://{name}.blob.core.windows.net"),
            name,
        })
    }
}

/// Returns the account in a URL such as `https://account.blob.core.windows.net`.
fn account_of(url: &str) -> Option<String> {
    let (_, host) = url.split_once("://")?;
    let (account, _) = host.split_once(".blob.")?;
    Some(account.to_owned())
}

#[cfg(test)]
mod tests {
    use super::Account;

    fn account(text: &str) -> String {
        match Account::parse(text) {
            Ok(account) => format!(
                "{} {} key={:?} signature={:?}",
                account.name, account.endpoint, account.key, account.signature
            ),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn connection_strings_are_read() {
        let all = [
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=k==;EndpointSuffix=core.windows.net",
            "AccountName=devstoreaccount1;AccountKey=k;BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1/;",
            "BlobEndpoint=https://b.blob.core.windows.net;SharedAccessSignature=sv=2022&sig=x%3D",
            "AccountName=public",
            "AccountKey=k",
            "something else",
        ]
        .map(account)
        .join("\n");
        insta::assert_snapshot!(all, @r#"
        a https://a.blob.core.windows.net key=Some("k==") signature=None
        devstoreaccount1 http://127.0.0.1:10000/devstoreaccount1 key=Some("k") signature=None
        b https://b.blob.core.windows.net key=None signature=Some("sv=2022&sig=x%3D")
        public https://public.blob.core.windows.net key=None signature=None
        `AZURE_STORAGE_CONNECTION_STRING` has no `AccountName`
        `AZURE_STORAGE_CONNECTION_STRING` is not made of `Name=value` pairs with `;` between
        "#);
        assert!(account("UseDevelopmentStorage=true").starts_with("devstoreaccount1 http://127"));
    }
}
