//! The typed service of `contacts.proto`: checks what comes in, asks the store, says where a new
//! contact is. Which protocol a call came by matters in one place: `Location` is REST's.

use tidewire::http::HeaderValue;
use tidewire::http::header::{HOST, LOCATION};
use tidewire::{Context, Error, Protocol, Reply, Result};

use crate::proto::contacts::v1::{
    Contact, Contacts, CreateRequest, DeleteReply, DeleteRequest, GetRequest,
};
use crate::store::Store;

/// `contacts.v1.Contacts` on a store.
#[derive(Debug)]
pub struct TypedContacts<S> {
    store: S,
    scheme: Scheme,
}

/// How clients reach the application; the start of absolute URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Cleartext.
    Http,
    /// TLS.
    Https,
}

impl<S: Store> TypedContacts<S> {
    /// The service on `store`.
    pub fn new(store: S, scheme: Scheme) -> Self {
        Self { store, scheme }
    }

    /// Where a contact is: absolute by the name that the client used for the server, as seed
    /// clients compare it; relative (RFC 9110, section 10.2.2) when it used none.
    fn location(&self, context: &Context, id: i32) -> Result<HeaderValue> {
        let host = context.header(HOST).and_then(|host| host.to_str().ok());
        let url = match (host, self.scheme) {
            (None, _) => format!("/contacts/{id}"),
            (Some(host), Scheme::Http) => format!("http://{host}/contacts/{id}"),
            (Some(host), Scheme::Https) => format!("https://{host}/contacts/{id}"),
        };
        HeaderValue::try_from(url)
            .map_err(|_| Error::invalid_argument("header host holds characters it must not"))
    }
}

impl<S: Store> Contacts for TypedContacts<S> {
    async fn create(&self, context: Context, request: CreateRequest) -> Result<Reply<Contact>> {
        check_name("first_name", &request.first_name)?;
        check_name("surname", &request.surname)?;
        let reply = Reply::new(self.store.create(request).await?);
        if context.protocol() != Some(Protocol::Rest) {
            return Ok(reply);
        }
        let location = self.location(&context, reply.body.id)?;
        Ok(reply.with_header(LOCATION, location))
    }

    async fn get(&self, _: Context, request: GetRequest) -> Result<Reply<Contact>> {
        let id = request.id;
        match self.store.find(id).await? {
            Some(contact) => Ok(contact.into()),
            None => Err(Error::not_found(format!("no contact has id {id}"))),
        }
    }

    async fn delete(&self, _: Context, request: DeleteRequest) -> Result<Reply<DeleteReply>> {
        self.store.delete(request.id).await?;
        Ok(DeleteReply::default().into())
    }
}

fn check_name(field: &str, name: &str) -> Result<()> {
    if name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let len = name.len();
    Err(Error::invalid_argument(format!(
        "field {field} is {len} bytes, over the limit of {NAME_BYTES_MAX}; shorten it"
    )))
}

const NAME_BYTES_MAX: usize = 1024;
