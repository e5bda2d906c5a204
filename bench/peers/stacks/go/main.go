// Command go-contacts is the peer that the reference application is measured against: health, echo, relay
// and contacts with net/http and pgx, as one would write them in Go today. Statements are prepared and
// cached, and pools keep their connections, to the database as to the store that the relay asks.
//
// It prints `listening on ADDRESS` and serves until it is killed. DATABASE_URL is the database, LISTEN
// the address, POOL the number of connections, STORE the address of the relay's store.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

type contact struct {
	ID        int32  `json:"id"`
	FirstName string `json:"firstName"`
	Surname   string `json:"surname"`
}

type server struct {
	pool  *pgxpool.Pool
	store string
	http  *http.Client
}

func main() {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	connections, err := strconv.Atoi(setting("POOL", "16"))
	if err != nil {
		log.Fatal(err)
	}
	config.MaxConns = int32(connections)
	config.MinConns = int32(connections)
	config.MaxConnIdleTime = time.Hour
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", setting("LISTEN", "127.0.0.1:0"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr())
	log.Fatal(http.Serve(listener, routes(&server{pool, os.Getenv("STORE"), client()})))
}

func routes(s *server) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	mux.HandleFunc("GET /echo/{text}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, r.PathValue("text"))
	})
	mux.HandleFunc("GET /relay/{key}", s.relay)
	mux.HandleFunc("POST /contacts", s.create)
	mux.HandleFunc("GET /contacts/{id}", s.get)
	mux.HandleFunc("DELETE /contacts/{id}", s.delete)
	return mux
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// client keeps as many connections to the store as calls need; Go's default keeps two.
func client() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 512
	return &http.Client{Transport: transport, Timeout: 5 * time.Second}
}

func (s *server) relay(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("key")
	request, err := http.NewRequestWithContext(r.Context(), "GET", "http://"+s.store+"/store/"+url.PathEscape(key), nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	reply, err := s.http.Do(request)
	if err != nil {
		http.Error(w, "the store does not answer", http.StatusBadGateway)
		return
	}
	defer reply.Body.Close()
	var stored struct {
		Value string `json:"value"`
	}
	if err := json.NewDecoder(reply.Body).Decode(&stored); err != nil {
		http.Error(w, "the store answered something else", http.StatusBadGateway)
		return
	}
	// The connection is kept only when all of the body was read.
	io.Copy(io.Discard, reply.Body)
	body, _ := json.Marshal(struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}{key, stored.Value})
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

func (s *server) create(w http.ResponseWriter, r *http.Request) {
	var c contact
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	row := s.pool.QueryRow(r.Context(),
		"INSERT INTO contact (firstname, surname) VALUES ($1, $2) RETURNING id", c.FirstName, c.Surname)
	if err := row.Scan(&c.ID); err != nil {
		failed(w, err)
		return
	}
	w.Header().Set("Location", fmt.Sprintf("http://%s/contacts/%d", r.Host, c.ID))
	answer(w, http.StatusCreated, &c)
}

func (s *server) get(w http.ResponseWriter, r *http.Request) {
	id, ok := id(w, r)
	if !ok {
		return
	}
	c := contact{ID: id}
	row := s.pool.QueryRow(r.Context(), "SELECT firstname, surname FROM contact WHERE id = $1", id)
	if err := row.Scan(&c.FirstName, &c.Surname); err != nil {
		failed(w, err)
		return
	}
	answer(w, http.StatusOK, &c)
}

func (s *server) delete(w http.ResponseWriter, r *http.Request) {
	id, ok := id(w, r)
	if !ok {
		return
	}
	if _, err := s.pool.Exec(r.Context(), "DELETE FROM contact WHERE id = $1", id); err != nil {
		failed(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func id(w http.ResponseWriter, r *http.Request) (int32, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 32)
	if err != nil {
		http.Error(w, "id is not a number", http.StatusBadRequest)
	}
	return int32(id), err == nil
}

func answer(w http.ResponseWriter, status int, c *contact) {
	body, err := json.Marshal(c)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

func failed(w http.ResponseWriter, err error) {
	if errors.Is(err, pgx.ErrNoRows) {
		http.Error(w, "no contact has this id", http.StatusNotFound)
		return
	}
	log.Print(err)
	http.Error(w, "the database failed", http.StatusServiceUnavailable)
}
