// The shop in Go.
package main

import (
	"log"
	"sync"

	tidewire "tidewire.dev/go"
)

type item struct {
	ID       int    `json:"id,omitempty"`
	Count    int    `json:"count,omitempty"`
	Language string `json:"language,omitempty"`
}

func main() {
	var counts sync.Map
	app := tidewire.New()
	tidewire.Unary(app, "shop.v1.GoShop/GetItem", func(c *tidewire.Context, request item) (item, error) {
		c.Depends("go-items", request.ID)
		count, _ := counts.Load(request.ID)
		found, _ := count.(int)
		return item{request.ID, found, "Go"}, nil
	})
	tidewire.Unary(app, "shop.v1.GoShop/SetItem", func(c *tidewire.Context, request item) (item, error) {
		counts.Store(request.ID, request.Count)
		c.Changed("go-items", request.ID)
		return request, nil
	})
	if err := app.Serve(); err != nil {
		log.Fatal(err)
	}
}
