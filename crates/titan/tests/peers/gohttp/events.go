package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// events sends its events one by one: the next when the client has told by /seen that it has the last one.
// A proxy that holds back an event waits for ever. With `size` they are padded to that, and the length
// of all of them together is declared.
func events(w http.ResponseWriter, r *http.Request) {
	count, size := number(r, "count"), number(r, "size")
	if size > 0 {
		w.Header().Set("Content-Length", fmt.Sprint(count*size))
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i := 1; i <= count; i++ {
		event := fmt.Sprintf("data: %d\n\n", i)
		if pad := size - len(event); pad > 0 {
			event = ":" + strings.Repeat(" ", pad-2) + "\n" + event
		}
		w.Write([]byte(event))
		w.(http.Flusher).Flush()
		if i < count && !wait(r) {
			return
		}
	}
}

// poll answers when it is told to.
func poll(w http.ResponseWriter, r *http.Request) {
	if wait(r) {
		fmt.Fprint(w, "now")
	}
}

// told has a channel for each key that a client has chosen.
var told sync.Map

func channel(r *http.Request) chan struct{} {
	c, _ := told.LoadOrStore(r.URL.Query().Get("key"), make(chan struct{}))
	return c.(chan struct{})
}

// note returns when events or poll has taken the news.
func note(w http.ResponseWriter, r *http.Request) {
	select {
	case channel(r) <- struct{}{}:
	case <-r.Context().Done():
	}
}

func wait(r *http.Request) bool {
	select {
	case <-channel(r):
		return true
	case <-r.Context().Done():
		return false
	}
}
