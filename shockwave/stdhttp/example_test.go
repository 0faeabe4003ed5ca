package stdhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"titan.test/shockwave"
	"titan.test/shockwave/stdhttp"
)

// A mux of net/http, with its patterns, on Shockwave.
func ExampleHandler() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "item %s", r.PathValue("id"))
	})
	server := stdhttp.NewServer(stdhttp.Handler(mux))
	defer server.Close()

	response, err := server.Client().Get(server.URL + "/items/7")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	fmt.Println(response.StatusCode, string(body), err)
	// Output: 200 item 7 <nil>
}

// A Shockwave handler on one path of a net/http server that is there already.
func ExampleHTTPHandler() {
	hello := func(c *shockwave.Ctx) { c.SendString("text/plain", "hello "+string(c.QueryValue("name"))) }
	mux := http.NewServeMux()
	mux.Handle("GET /hello", stdhttp.HTTPHandler(hello))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/hello?name=you", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 200 hello you
}

// One TLS port for HTTP/1.1 and HTTP/2. NewTLSServer calls H2 itself; so does a server of yours before it serves:
//
//	s := &shockwave.Server{Handler: handler}
//	stdhttp.H2(s)
//	log.Fatal(s.ListenAndServeTLS(":443", "cert.pem", "key.pem"))
func ExampleH2() {
	server := stdhttp.NewTLSServer(func(c *shockwave.Ctx) {
		c.SendString("text/plain", "hello")
	})
	defer server.Close()

	response, err := server.Client().Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	fmt.Println(response.Proto, string(body))
	// Output: HTTP/2.0 hello
}

// A handler's test needs no socket.
func ExampleDo() {
	double := func(c *shockwave.Ctx) {
		body, err := c.ReadBody(100)
		if err != nil {
			c.Error(http.StatusRequestEntityTooLarge, "")
			return
		}
		c.SendString("text/plain", strings.Repeat(string(body), 2))
	}
	response, err := stdhttp.Do(double, httptest.NewRequest("POST", "/", strings.NewReader("ab")))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	fmt.Println(response.StatusCode, string(body))
	// Output: 200 abab
}
