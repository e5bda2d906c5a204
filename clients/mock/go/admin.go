package mock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// Error is what the mock refuses, or why it cannot be asked.
type Error struct {
	// Code is as in gRPC: invalid_argument, not_found, unavailable.
	Code    string
	Message string
}

func (e *Error) Error() string {
	return e.Message
}

// A program of this machine is not asked through a proxy.
var admin = &http.Client{Transport: &http.Transport{}}

// ask gets the reply of a method of `tidewire.admin.v1.Mocks`.
func (p *program) ask(verb string, request, reply any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return &Error{"invalid_argument", err.Error()}
	}
	url := "http://" + p.admin + "/tidewire.admin.v1.Mocks/" + verb
	asked, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	asked.Header.Set("content-type", "application/json")
	asked.Header.Set("authorization", "Bearer "+p.token)
	response, err := admin.Do(asked)
	if err != nil {
		if why := p.whyDead(); why != "" {
			return &Error{"unavailable", why}
		}
		return &Error{"unavailable", fmt.Sprintf("the mock does not answer: %v", err)}
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return json.NewDecoder(response.Body).Decode(reply)
	}
	refused := &Error{"unknown", "the mock answers " + response.Status}
	_ = json.NewDecoder(response.Body).Decode(refused)
	if refused.Code == "not_found" {
		// A method may be missing because its file does not compile.
		refused.Message += p.errors()
	}
	return refused
}
