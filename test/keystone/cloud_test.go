//go:build keystone

package keystone

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// cloud is what the administrator does in Keystone.
type cloud struct {
	url, token, password string

	mu   sync.Mutex
	made int
}

// object is one of Keystone's, or a part of one.
type object = map[string]any

// connect logs in as the administrator of the environment.
func connect() *cloud {
	GinkgoHelper()
	c := &cloud{url: os.Getenv("OS_AUTH_URL"), password: os.Getenv("OS_PASSWORD")}
	Expect(c.url).NotTo(BeEmpty(), "OS_AUTH_URL and the other variables of an openrc file are needed; run make keystone")
	c.token = c.logIn(object{"name": os.Getenv("OS_USERNAME"), "domain": object{"id": os.Getenv("OS_USER_DOMAIN_ID")}, "password": c.password},
		object{"system": object{"all": true}})
	return c
}

// call returns the status, the headers and the body of an answer.
func (c *cloud) call(token, method, path string, body any, headers ...string) (int, http.Header, object) {
	GinkgoHelper()
	var content []byte
	if body != nil {
		var err error
		content, err = json.Marshal(body)
		Expect(err).NotTo(HaveOccurred())
	}
	req, err := http.NewRequest(method, c.url+path, bytes.NewReader(content))
	Expect(err).NotTo(HaveOccurred())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Auth-Token", token)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	Expect(err).NotTo(HaveOccurred())
	var parsed object
	if len(text) > 0 {
		Expect(json.Unmarshal(text, &parsed)).To(Succeed(), "%s %s: %s", method, path, text)
	}
	return answer.StatusCode, answer.Header, parsed
}

// do does something that must succeed.
func (c *cloud) do(method, path string, body any) object {
	GinkgoHelper()
	status, _, answer := c.call(c.token, method, path, body)
	Expect(status).To(BeNumerically("<", 300), "%s %s: %v", method, path, answer)
	return answer
}

// name returns one that no earlier run has used.
func (c *cloud) name(prefix string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	return fmt.Sprintf("%s-%d-%d", prefix, time.Now().UnixNano(), c.made)
}

// create creates an object and returns its id.
func (c *cloud) create(kind, name string, fields object) string {
	GinkgoHelper()
	all := object{"name": name}
	for key, value := range fields {
		all[key] = value
	}
	return c.do(http.MethodPost, "/"+kind+"s", object{kind: all})[kind].(object)["id"].(string)
}

// set changes an object.
func (c *cloud) set(kind, id string, fields object) {
	GinkgoHelper()
	c.do(http.MethodPatch, "/"+kind+"s/"+id, object{kind: fields})
}

// newPassword returns a password or another secret, by which searchForSecrets knows it.
func (c *cloud) newPassword() string { return c.name("pw") + "-s3cret" }

// user is one with its password.
type user struct{ id, password string }

func (c *cloud) user(domain, name string) user {
	GinkgoHelper()
	password := c.newPassword()
	return user{c.create("user", name, object{"domain_id": domain, "password": password}), password}
}

// authenticate returns a token by some method.
func (c *cloud) authenticate(identity, scope any) (string, int) {
	GinkgoHelper()
	auth := object{"identity": identity}
	if scope != nil {
		auth["scope"] = scope
	}
	status, header, _ := c.call("", http.MethodPost, "/auth/tokens", object{"auth": auth})
	return header.Get("X-Subject-Token"), status
}

func (c *cloud) logIn(u object, scope any) string {
	GinkgoHelper()
	token, status := c.authenticate(object{"methods": []string{"password"}, "password": object{"user": u}}, scope)
	Expect(status).To(Equal(http.StatusCreated))
	return token
}

// tokenOf returns a token of a user.
func (c *cloud) tokenOf(u user, scope any) string {
	GinkgoHelper()
	return c.logIn(object{"id": u.id, "password": u.password}, scope)
}

func inProject(id string) object { return object{"project": object{"id": id}} }
func inDomain(id string) object  { return object{"domain": object{"id": id}} }

// proxy is a way to Keystone that can be cut.
type proxy struct {
	address, target string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
	accepted int
}

func newProxy(target string) *proxy {
	GinkgoHelper()
	p := &proxy{address: "127.0.0.1:0", target: strings.TrimSuffix(strings.TrimPrefix(target, "http://"), "/v3"), open: make(map[net.Conn]bool)}
	p.start()
	return p
}

func (p *proxy) start() {
	GinkgoHelper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	p.listener, err = net.Listen("tcp", p.address)
	Expect(err).NotTo(HaveOccurred())
	p.address = p.listener.Addr().String()
	go p.serve(p.listener)
}

func (p *proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.accepted++
		p.open[client], p.open[server] = true, true
		p.mu.Unlock()
		for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1])
				pair[0].Close()
				p.mu.Lock()
				defer p.mu.Unlock()
				delete(p.open, pair[0])
			}()
		}
	}
}

// stop refuses and ends connections.
func (p *proxy) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener.Close()
	for conn := range p.open {
		conn.Close()
	}
}

// requests returns how many there were: Keystone ends the connection after each.
func (p *proxy) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// tamperer stands in front of Keystone and changes its answers.
type tamperer struct {
	*httptest.Server
	// change changes an answer, whose body it gets, in place; nil for none. With a length of
	// -1, half of the answer is sent.
	change atomic.Pointer[func(answer *http.Response, body object)]
}

func newTamperer(target string) *tamperer {
	GinkgoHelper()
	u, err := url.Parse(strings.TrimSuffix(target, "/v3"))
	Expect(err).NotTo(HaveOccurred())
	t := &tamperer{}
	reverse := httputil.NewSingleHostReverseProxy(u)
	reverse.ModifyResponse = func(answer *http.Response) error {
		change := t.change.Load()
		if change == nil || answer.Request.Method != http.MethodGet || strings.HasSuffix(answer.Request.URL.Path, "/auth/tokens") {
			return nil
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		body := object{}
		if err := json.Unmarshal(text, &body); err != nil {
			return err
		}
		(*change)(answer, body)
		if answer.StatusCode != http.StatusOK {
			body = object{"error": object{"code": answer.StatusCode}}
		}
		changed, err := json.Marshal(body)
		answer.Header.Set("Content-Length", strconv.Itoa(len(changed)))
		if answer.ContentLength < 0 {
			changed = changed[:len(changed)/2]
		}
		answer.Body = io.NopCloser(bytes.NewReader(changed))
		return err
	}
	t.Server = httptest.NewServer(reverse)
	t.Config.SetKeepAlivesEnabled(false) // as Keystone's
	return t
}

// tamper changes answers from now on; nil ends that.
func (t *tamperer) tamper(change func(answer *http.Response, body object)) {
	if change == nil {
		t.change.Store(nil)
		return
	}
	t.change.Store(&change)
}
