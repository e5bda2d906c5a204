//! actix-web as its guide writes it, with one worker. First line of output is the address.

use actix_web::{App, HttpServer, Responder, get, web};

#[derive(serde::Serialize)]
struct Message<'a> {
    message: &'a str,
}

#[derive(serde::Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[get("/plaintext")]
async fn plaintext() -> impl Responder {
    "Hello, World!"
}

#[get("/json")]
async fn json() -> impl Responder {
    web::Json(Message { message: "Hello World!" })
}

#[get("/method/plaintext")]
async fn method_plaintext(named: web::Query<Named>) -> impl Responder {
    let _ = &named.name;
    "Hello World!"
}

#[get("/method/json")]
async fn method_json(named: web::Query<Named>) -> impl Responder {
    let _ = &named.name;
    web::Json(Message { message: "Hello World!" })
}

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    let app = || {
        App::new().service(plaintext).service(json).service(method_plaintext).service(method_json)
    };
    let server = HttpServer::new(app).workers(1).bind("127.0.0.1:0")?;
    println!("{}", server.addrs()[0]);
    server.run().await
}
