//! The identities that count at the moment, as the file and the key sets of issuers change.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use super::{
    denials::DenialCounts,
    file::{AuthFileError, AuthRules, AuthTerms},
    identity::Identity,
    key::KeyDigest,
    keyset::{KeySetError, KeySetSource},
    token::{self, Issuer, TokenRefusal},
    unserved::{ServableNames, UnservedPatterns},
    verifier,
};
use crate::{
    error::{Error, ErrorKind, chain},
    stamps::{Changes, FileReloads, Stamps},
    task,
};

/// Time from one look at the key set of a URL to the next.
const REFRESH: Duration = Duration::from_secs(300);

/// The same at least, where a token has a key that is not known.
const PAUSE: Duration = Duration::from_secs(10);

/// The file of `--auth` and what is known of it.
#[derive(Debug)]
pub struct Auth {
    path: PathBuf,
    terms: AuthTerms,
    rules: ArcSwap<AuthRules>,
    /// Changes with the rules and with the keys of issuers.
    generation: AtomicU64,
    /// One reload at a time, with the state of the files that the last one has read.
    changes: Mutex<Changes>,
    /// Wish for new keys of issuers.
    wanted: Notify,
    /// Times that the file was read again.
    reloads: Arc<FileReloads>,
    denials: Arc<DenialCounts>,
    unserved: UnservedPatterns,
}

/// Proof of who a client is.
#[derive(Debug, Clone, Copy)]
pub enum Credential<'a> {
    /// API key or token.
    Secret(&'a str),
    /// Names of a certificate that is verified.
    Certificate(&'a [String]),
}

/// Identity of a credential.
#[derive(Debug, Clone)]
pub struct Identified {
    /// The identity.
    pub identity: Arc<Identity>,
    /// End of its token.
    pub until: Option<SystemTime>,
}

/// A credential that is of no identity; the text is for the client and for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialRefusal {
    /// Key that is in no identity.
    #[error("the API key is not known")]
    Key,
    /// Certificate that is in no identity.
    #[error("the certificate is of none of the identities")]
    Certificate,
    /// Token that is wrong, or in no identity.
    #[error(transparent)]
    Token(#[from] TokenRefusal),
}

impl CredentialRefusal {
    /// Returns whether it may be a guess. A token whose key is not known is as well one of a new key, and the time of a
    /// token counts after its signature.
    pub fn may_be_guess(&self) -> bool {
        use TokenRefusal::{Early, Expired, Key};
        !matches!(self, Self::Token(Key | Expired | Early))
    }
}

impl Auth {
    /// Reads the file, and the key sets that are files; blocks meanwhile. Those of URLs are still missing.
    ///
    /// # Errors
    ///
    /// Fails if one cannot be read, or what is in it cannot be used.
    pub fn open(path: &Path, terms: AuthTerms) -> Result<Self, AuthFileError> {
        verifier::install();
        let (rules, stamps) = Self::read(path, terms);
        let rules = rules?;
        Ok(Self {
            path: path.to_owned(),
            terms,
            rules: ArcSwap::from_pointee(rules),
            generation: AtomicU64::new(1),
            changes: Mutex::new(Changes::new(stamps)),
            wanted: Notify::new(),
            denials: Arc::default(),
            reloads: Arc::default(),
            unserved: UnservedPatterns::default(),
        })
    }

    /// Reads the file; returns also the state in which it and the key sets are.
    fn read(path: &Path, terms: AuthTerms) -> (Result<AuthRules, AuthFileError>, Stamps) {
        let own = Stamps::of([path]);
        let rules = AuthRules::read(path, terms);
        let key_files = rules.iter().flat_map(AuthRules::key_files);
        let stamps = own.and(Stamps::of(key_files));
        (rules, stamps)
    }

    /// Returns the rules that count at the moment.
    pub fn rules(&self) -> Arc<AuthRules> {
        self.rules.load_full()
    }

    /// Returns a number that is another one once a credential may have another identity.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns whether health is open to anyone.
    pub fn has_open_health(&self) -> bool {
        self.rules.load().open_health
    }

    /// Returns the counts of requests that were denied.
    pub fn denials(&self) -> &Arc<DenialCounts> {
        &self.denials
    }

    /// Returns the counts of the times that the file was read again.
    pub(crate) fn reloads(&self) -> &Arc<FileReloads> {
        &self.reloads
    }

    /// Returns how many attempts of an address may fail in a minute; 0 for any number.
    pub fn max_failures(&self) -> u32 {
        self.rules.load().max_failures
    }

    /// Finds the identity of a credential.
    ///
    /// # Errors
    ///
    /// Fails if it is of none. A token whose key is not known has the keys of its issuer fetched again, so that it may be
    /// accepted later.
    pub fn identify(&self, credential: Credential<'_>) -> Result<Identified, CredentialRefusal> {
        let rules = self.rules.load();
        let of = |identity: &Arc<Identity>| Identified {
            identity: Arc::clone(identity),
            until: None,
        };
        match credential {
            Credential::Certificate(names) => {
                let found = rules.of_certificate(names);
                found.map(of).ok_or(CredentialRefusal::Certificate)
            }
            Credential::Secret(secret) => {
                match rules.of_key(&KeyDigest::of(secret.as_bytes())) {
                    Some(found) => Ok(of(found)),
                    // Tokens have two dots, and keys that are made here none.
                    None if secret.contains('.') && !rules.issuers.is_empty() => {
                        Ok(self.of_token(&rules, secret)?)
                    }
                    None => Err(CredentialRefusal::Key),
                }
            }
        }
    }

    /// Returns whether there is a credential that is the API key of an identity.
    pub fn has_key(&self, digest: Option<&KeyDigest>) -> bool {
        digest.is_some_and(|digest| self.rules.load().of_key(digest).is_some())
    }

    fn of_token(&self, rules: &AuthRules, token: &str) -> Result<Identified, TokenRefusal> {
        let issuer = token::issuer_of(token, &rules.issuers)?;
        let claims = issuer.verify(token).inspect_err(|refusal| {
            if *refusal == TokenRefusal::Key {
                self.wanted.notify_one();
            }
        })?;
        let identity = rules.of_token(&issuer.name, &claims);
        let identity = identity.ok_or(TokenRefusal::Unknown)?;
        Ok(Identified {
            identity: Arc::new(identity.of_subject(claims.subject())),
            until: Some(claims.expires),
        })
    }

    /// Fetches the key sets of URLs; those that cannot be fetched stay as they are, and the log says so.
    pub async fn fetch(&self) {
        let rules = self.rules();
        let fetched = rules.issuers.iter().filter_map(|issuer| {
            let KeySetSource::Url(url) = &issuer.source else {
                return None;
            };
            Some(async move {
                match KeySetSource::fetch(url).await {
                    Ok(keys) => {
                        let is_other = **issuer.keys.load() != keys;
                        // With the same keys every credential is what it was. Others count at once: the next issuer may not
                        // answer for seconds.
                        if is_other {
                            issuer.keys.store(Arc::new(keys));
                            self.generation.fetch_add(1, Ordering::AcqRel);
                        }
                    }
                    Err(error) => {
                        let name = &issuer.name;
                        tracing::warn!(
                            "keys of the issuer {name} stay as they are: {}",
                            chain(&error)
                        );
                    }
                }
            })
        });
        join_all(fetched.collect::<Vec<_>>()).await;
    }

    /// Fetches the key sets of URLs without keeping them, for a check of the file.
    pub async fn check_key_sets(&self) -> Vec<KeySetError> {
        let rules = self.rules();
        let fetched = rules
            .issuers
            .iter()
            .filter_map(|issuer| match &issuer.source {
                KeySetSource::Url(url) => Some(KeySetSource::fetch(url)),
                KeySetSource::File(_) => None,
            });
        let fetched = join_all(fetched.collect::<Vec<_>>()).await;
        fetched.into_iter().filter_map(Result::err).collect()
    }

    /// Warns of patterns that match none of these names, each once until it matches: at a change of
    /// the file, and of the names as long as [`Self::watch_servables`] goes on. Only the first word counts.
    pub fn follow_servables(&self, names: ServableNames) {
        self.unserved.follow(names);
    }

    /// Looks at the patterns each time that what is served changes.
    pub async fn watch_servables(self: Arc<Self>) {
        let Some(mut names) = self.unserved.names() else {
            return;
        };
        while names.changed().await.is_ok() {
            self.warn_of_unserved();
        }
    }

    /// Warns of patterns that fit nothing that is served, unless that was so at the last look.
    pub fn warn_of_unserved(&self) {
        for warning in self.unserved.look(|| self.rules()) {
            tracing::warn!("{warning}");
        }
    }

    /// Follows the file in intervals, if there is one, and the keys of issuers.
    pub async fn watch(self: Arc<Self>, interval: Option<Duration>) {
        let mut fetched = Instant::now();
        loop {
            let look = async {
                match interval {
                    Some(interval) => sleep(interval).await,
                    None => std::future::pending().await,
                }
            };
            let wish = async {
                sleep_until(fetched + PAUSE).await;
                self.wanted.notified().await;
            };
            tokio::select! {
                () = look => {
                    if !matches!(self.follow(Look::Steady).await, Ok(true)) {
                        continue;
                    }
                }
                () = wish => {}
                () = sleep_until(fetched + REFRESH) => {}
            }
            self.fetch().await;
            fetched = Instant::now();
        }
    }

    /// Reads the file again, whether it has changed or not, and fetches keys of new issuers. Whether its patterns fit
    /// anything is to be looked at later, when what is served is up to date as well.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be used; rights stay as they were.
    pub async fn reload(self: &Arc<Self>) -> Result<(), Error> {
        match self.follow(Look::Now).await {
            Ok(true) => self.fetch().await,
            Ok(false) => {}
            Err(error) => {
                let text = format!("Rights stay as they were - {}", chain(&error));
                return Err(Error::new(ErrorKind::FailedPrecondition, text));
            }
        }
        Ok(())
    }

    /// Reads the file if it is due; returns whether other rules count now.
    async fn follow(self: &Arc<Self>, look: Look) -> Result<bool, AuthFileError> {
        let this = Arc::clone(self);
        task::blocking("auth file", move || {
            let mut changes = this.changes.lock();
            if look == Look::Steady {
                let own = Stamps::of([&*this.path]);
                let found = own.and(Stamps::of(this.rules.load().key_files()));
                if !changes.look(&found) {
                    return Ok(false);
                }
            }
            let (rules, stamps) = Self::read(&this.path, this.terms);
            this.reloads.count(rules.is_ok());
            match rules {
                Ok(rules) => {
                    // The key sets may be other files.
                    *changes = Changes::new(stamps);
                    this.take(rules);
                    if look == Look::Steady {
                        this.warn_of_unserved();
                    }
                    Ok(true)
                }
                Err(error) => {
                    let reason = chain(&error).to_string();
                    if changes.refused(reason.clone()) || look == Look::Now {
                        tracing::warn!("rights stay as they were: {reason}");
                    }
                    Err(error)
                }
            }
        })
        .await
    }

    /// Replaces the rules; the known keys are kept.
    fn take(&self, rules: AuthRules) {
        let before = self.rules.load();
        for issuer in &rules.issuers {
            let is_same = |known: &&Arc<Issuer>| {
                known.source == issuer.source && matches!(known.source, KeySetSource::Url(_))
            };
            if let Some(known) = before.issuers.iter().find(is_same) {
                issuer.keys.store(known.keys.load_full());
            }
        }
        for warning in rules.warnings() {
            tracing::warn!("{warning}");
        }
        let path = self.path.display();
        tracing::info!(
            "rights are those of {path} with {} identities",
            rules.count()
        );
        self.rules.store(Arc::new(rules));
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

/// Reason to read the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// The file has changed, and changes no more.
    Steady,
    /// Fetched because somebody waits for it.
    Now,
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::Arc};

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        sync::watch,
    };

    use super::{Auth, Credential, CredentialRefusal};
    use crate::{
        auth::{ApiKey, AuthTerms},
        task::Task,
    };

    fn write(path: &Path, key: &ApiKey, rights: &str) {
        let text = format!(
            "[[identity]]\nname = \"a\"\nkeys = [\"{}\"]\n{rights}\n",
            key.digest()
        );
        fs::write(path, text).unwrap();
    }

    #[tokio::test]
    async fn a_faulty_file_keeps_the_old_rights() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.toml");
        let (old, new) = (ApiKey::generate().unwrap(), ApiKey::generate().unwrap());
        write(&path, &old, "infer = [\"m\"]");
        let auth = Arc::new(Auth::open(&path, AuthTerms::default()).unwrap());
        let find = |key: &ApiKey| auth.identify(Credential::Secret(key.text()));
        let found = find(&old).unwrap().identity;
        assert!(found.may_infer("m") && !found.may_infer("x"));
        assert_eq!(find(&new).unwrap_err(), CredentialRefusal::Key);
        let generation = auth.generation();
        fs::write(&path, "[[identity]]\nname = 1\n").unwrap();
        let refused = auth.reload().await.unwrap_err();
        assert!(refused.message().starts_with("Rights stay as they were - "));
        assert!(find(&old).is_ok());
        assert_eq!(auth.generation(), generation);
        write(&path, &new, "infer = [\"*\"]");
        auth.reload().await.unwrap();
        assert_eq!(find(&old).unwrap_err(), CredentialRefusal::Key);
        assert!(find(&new).unwrap().identity.may_infer("x"));
        assert_ne!(auth.generation(), generation);
    }

    #[tokio::test]
    async fn keys_that_are_fetched_again_change_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let serve = Task::spawn(async move {
            for key in ["AQAB", "AQAB", "AQAC"] {
                let set = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{key}"}}]}}"#);
                let length = set.len();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{set}"
                );
                let (mut stream, _) = listener.accept().await.unwrap();
                assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.toml");
        let text = format!(
            "[[jwt]]\nissuer = \"x\"\naudience = \"ovms\"\njwks = \"{url}\"\n\
             [[identity]]\nname = \"a\"\ntokens = [{{ subject = \"*\" }}]\ninfer = [\"*\"]\n"
        );
        fs::write(&path, text).unwrap();
        let auth = Auth::open(&path, AuthTerms::default()).unwrap();
        let mut generations = vec![auth.generation()];
        for _ in 0..3 {
            auth.fetch().await;
            generations.push(auth.generation());
        }
        assert_eq!(generations, [1, 2, 2, 3]);
        drop(serve);
    }

    #[tokio::test]
    async fn keys_count_before_another_issuer_answers() {
        let quick = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = |it: &TcpListener| format!("http://{}/keys", it.local_addr().unwrap());
        let (first, second) = (url(&hung), url(&quick));
        let serve = Task::spawn(async move {
            let set = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AQAB"}]}"#;
            let length = set.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{set}");
            let (mut stream, _) = quick.accept().await.unwrap();
            assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.toml");
        let text = format!(
            "[[jwt]]\nissuer = \"x\"\naudience = \"ovms\"\njwks = \"{first}\"\n\
             [[jwt]]\nissuer = \"y\"\naudience = \"ovms\"\njwks = \"{second}\"\n\
             [[identity]]\nname = \"a\"\ntokens = [{{ subject = \"*\", issuer = \"x\" }}]\ninfer = [\"*\"]\n"
        );
        fs::write(&path, text).unwrap();
        let auth = Auth::open(&path, AuthTerms::default()).unwrap();
        let before = auth.generation();
        let counts = async {
            while auth.generation() == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = auth.fetch() => panic!("the other issuer has not answered"),
            () = counts => {}
        }
        drop((serve, hung));
    }

    #[tokio::test]
    async fn a_pattern_is_new_until_it_is_known_and_again_after_it_has_fit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.toml");
        let key = ApiKey::generate().unwrap();
        write(&path, &key, "infer = [\"a\", \"b\", \"*\"]");
        let auth = Arc::new(Auth::open(&path, AuthTerms::default()).unwrap());
        let look = || auth.unserved.look(|| auth.rules()).len();
        assert_eq!(look(), 0, "nothing is known of what is served");
        let (sender, names) = watch::channel(None);
        auth.follow_servables(names);
        assert_eq!(look(), 0, "nothing is known yet");
        let serve = |names: &[&str]| {
            let names: Arc<[String]> = names.iter().map(|&name| name.to_owned()).collect();
            sender.send_replace(Some(names));
        };
        serve(&["a"]);
        assert_eq!((look(), look()), (1, 0));
        serve(&[]);
        assert_eq!((look(), look()), (1, 0));
        serve(&["a", "b"]);
        assert_eq!(look(), 0);
        serve(&["c"]);
        assert_eq!((look(), look()), (2, 0));
        write(&path, &key, "admin = true\ninfer = [\"a\", \"d\"]");
        auth.reload().await.unwrap();
        assert_eq!((look(), look()), (1, 0), "`a` is known, wherever it stands");
    }

    #[tokio::test(start_paused = true)]
    async fn the_file_is_watched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.toml");
        let (old, new) = (ApiKey::generate().unwrap(), ApiKey::generate().unwrap());
        write(&path, &old, "");
        let auth = Arc::new(Auth::open(&path, AuthTerms::default()).unwrap());
        let interval = std::time::Duration::from_secs(1);
        let watch = crate::task::Task::spawn(Arc::clone(&auth).watch(Some(interval)));
        write(&path, &new, "admin = true");
        let generation = auth.generation();
        while auth.generation() == generation {
            tokio::time::sleep(interval).await;
        }
        assert!(auth.identify(Credential::Secret(new.text())).is_ok());
        assert!(auth.identify(Credential::Secret(old.text())).is_err());
        drop(watch);
    }
}
