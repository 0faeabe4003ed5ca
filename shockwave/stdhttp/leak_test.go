package stdhttp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"titan.test/shockwave"
)

// TestNothingIsLeft runs exchanges of all kinds where a goroutine that is left behind fails the test: synctest waits
// for them all.
func TestNothingIsLeft(t *testing.T) {
	hello := func(c *shockwave.Ctx) { c.SendString("text/plain", "hello") }
	for name, exchange := range map[string]func(t *testing.T){
		"Do": func(t *testing.T) {
			response, err := Do(hello, httptest.NewRequest("GET", "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
		},
		"Do with an unread answer": func(t *testing.T) {
			response, err := Do(func(c *shockwave.Ctx) {
				for _, err := c.WriteString(strings.Repeat("x", 100_000)); err == nil; {
					_, err = c.WriteString("x")
				}
			}, httptest.NewRequest("GET", "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
		},
		"Do without a response": func(t *testing.T) {
			if _, err := Do(func(*shockwave.Ctx) { panic(shockwave.ErrAbort) }, httptest.NewRequest("GET", "/", nil)); err == nil {
				t.Error("an aborted exchange has a response")
			}
		},
		"unread body": func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", 100_000)))
			HTTPHandler(hello).ServeHTTP(httptest.NewRecorder(), r)
		},
		"body that is not asked for": func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", strings.NewReader("x"))
			r.Header.Set("Expect", "100-continue")
			HTTPHandler(hello).ServeHTTP(httptest.NewRecorder(), r)
		},
		"cancelled": func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer func() {
				if recover() != http.ErrAbortHandler {
					t.Error("not aborted")
				}
			}()
			HTTPHandler(func(c *shockwave.Ctx) {
				cancel()
				<-c.Context().Done()
			}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		},
		"both ways": func(t *testing.T) {
			// A net/http handler on Shockwave under net/http.
			echo := HTTPHandler(Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				io.Copy(w, r.Body)
				if ctx.Err() != nil {
					t.Error(ctx.Err())
				}
			})))
			w := httptest.NewRecorder()
			echo.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader("there and back")))
			if w.Body.String() != "there and back" {
				t.Error(w.Body)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				exchange(t)
				// The engine's clock finds no connection when it next looks, and stops.
				time.Sleep(time.Second)
			})
		})
	}
}
