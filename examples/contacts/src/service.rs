//! The typed service of `contacts.proto`: checks what comes in, asks the store, says where a new
//! contact is. Which protocol a call came by matters in one place: `Location` is REST's.

use std::sync::Arc;

use tidewire::http::HeaderValue;
use tidewire::http::header::{HOST, LOCATION};
use tidewire::service::{Peer, Protocol};
use tidewire::{Context, Error, Reply, Result, Stream};

use crate::page;
use crate::proto::contacts::v1::{
    Contact, Contacts, CountReply, CountRequest, CreateRequest, DeleteReply, DeleteRequest,
    GetRequest, ListRequest, PageReply, PageRequest, UpdateRequest,
};
use crate::store::Store;

/// `contacts.v1.Contacts` on a store.
#[derive(Debug)]
pub struct TypedContacts<S> {
    store: Arc<S>,
}

impl<S: Store> TypedContacts<S> {
    /// The service on `store`.
    pub fn new(store: Arc<S>) -> Self {
        Self { store }
    }
}

impl<S: Store> Contacts for TypedContacts<S> {
    async fn create(&self, context: Context, request: CreateRequest) -> Result<Reply<Contact>> {
        check_name("first_name", &request.first_name)?;
        check_name("surname", &request.surname)?;
        let contact = match context.command_key()? {
            Some(key) => self.store.create_once(request, key).await?,
            None => self.store.create(request).await?,
        };
        let reply = Reply::new(contact);
        if context.protocol() != Some(Protocol::Rest) {
            return Ok(reply);
        }
        let location = location(&context, reply.body.id)?;
        reply.with_header(LOCATION, location)
    }

    async fn get(&self, _: Context, request: GetRequest) -> Result<Reply<Contact>> {
        reply_or_not_found(request.id, self.store.find(request.id).await?)
    }

    async fn list(&self, _: Context, _: ListRequest) -> Result<Reply<Stream<Contact>>> {
        Ok(self.store.list().await?.into())
    }

    async fn page(&self, _: Context, request: PageRequest) -> Result<Reply<PageReply>> {
        let size = page::size(request.page_size)?;
        let after = page::after(&request.page_token)?;
        // One more than the page shows whether another follows.
        let mut contacts = self.store.page(after, size + 1).await?;
        let more = contacts.len() > size as usize;
        contacts.truncate(size as usize);
        let last = contacts.last().filter(|_| more);
        let next_page_token = last.map(|last| page::token_after(last.id)).unwrap_or_default();
        Ok(PageReply { contacts, next_page_token, ..Default::default() }.into())
    }

    async fn count(&self, _: Context, _: CountRequest) -> Result<Reply<CountReply>> {
        let contacts = self.store.count().await?;
        Ok(CountReply { contacts, ..Default::default() }.into())
    }

    async fn update(&self, _: Context, request: UpdateRequest) -> Result<Reply<Contact>> {
        check_name("first_name", request.first_name.as_deref().unwrap_or_default())?;
        check_name("surname", request.surname.as_deref().unwrap_or_default())?;
        reply_or_not_found(request.id, self.store.update(request).await?)
    }

    async fn delete(&self, _: Context, request: DeleteRequest) -> Result<Reply<DeleteReply>> {
        self.store.delete(request.id).await?;
        Ok(DeleteReply::default().into())
    }
}

/// Where a contact is: absolute by the scheme and the host that the client used, as clients compare
/// it; relative (RFC 9110, section 10.2.2) when it named no host.
fn location(context: &Context, id: i32) -> Result<HeaderValue> {
    let host = context.header(HOST).and_then(|host| host.to_str().ok());
    let url = match host.filter(|host| !host.is_empty()) {
        None => format!("/contacts/{id}"),
        Some(host) => {
            let scheme = context.peer().map_or("http", Peer::scheme);
            format!("{scheme}://{host}/contacts/{id}")
        }
    };
    HeaderValue::try_from(url)
        .map_err(|_| Error::invalid_argument("header host holds characters it must not"))
}

fn reply_or_not_found(id: i32, contact: Option<Contact>) -> Result<Reply<Contact>> {
    match contact {
        Some(contact) => Ok(contact.into()),
        None => Err(Error::not_found(format!("no contact has id {id}"))),
    }
}

fn check_name(field: &str, name: &str) -> Result<()> {
    let len = name.len();
    if len > NAME_BYTES_MAX {
        return Err(Error::invalid_argument(format!(
            "field {field} is {len} bytes, over the limit of {NAME_BYTES_MAX}; shorten it"
        )));
    }
    // The one character that not every database can keep.
    if name.contains('\0') {
        return Err(Error::invalid_argument(format!(
            "field {field} holds a NUL character; leave it out"
        )));
    }
    Ok(())
}

const NAME_BYTES_MAX: usize = 1024;
