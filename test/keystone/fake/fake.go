package fake

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Password is that of the account "asker".
const Password = "pw-asker-s3cret"

// Keystone is a server. It answers in the forms of a real one, errors that repeat the
// token included.
type Keystone struct {
	*httptest.Server

	mu       sync.Mutex
	tokens   map[string]map[string]any
	services map[string]bool
	password string
	logins   int
	lookups  int
	// lists are the objects of collections.
	lists map[string][]map[string]any
	// people are the users, and attempts counts wrong passwords.
	people   []Person
	attempts int
	// instead answers requests in place of the server, if it returns true.
	instead func(w http.ResponseWriter, req *http.Request) bool
}

// New starts a server, which the caller closes.
func New() *Keystone {
	k := &Keystone{tokens: make(map[string]map[string]any), services: make(map[string]bool), password: Password, lists: map[string][]map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v3/auth/tokens", k.login)
	mux.HandleFunc("GET /v3/auth/tokens", k.admitted(k.lookUp))
	mux.HandleFunc("GET /v3/{collection}", k.admitted(k.list))
	mux.HandleFunc("GET /v3/users/{id}/projects", k.admitted(k.projectsOf))
	mux.HandleFunc("GET /v3/roles/{id}", k.admitted(k.role))
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		k.mu.Lock()
		instead := k.instead
		k.mu.Unlock()
		if instead == nil || !instead(w, req) {
			k.mu.Lock()
			defer k.mu.Unlock()
			mux.ServeHTTP(w, req)
		}
	}))
	return k
}

// Clouds returns a clouds.yaml with the account as the cloud "asker".
func (*Keystone) Clouds() []byte {
	return []byte("clouds:\n  asker:\n    auth: {username: asker, user_domain_id: default, system_scope: all, password: " + Password + "}\n")
}

// Token returns the nth of any number of strings in the form of a token.
func Token(n int) string { return fmt.Sprintf("gAAAAA%0177d", n) }

// Body returns what Keystone says of a token of a user, valid for an hour, with changes.
func Body(user string, changes map[string]any) map[string]any {
	body := map[string]any{
		"methods": []string{"password"}, "audit_ids": []string{"audit-" + user},
		"user":       map[string]any{"id": user, "name": "name of " + user, "domain": Ref("home")},
		"issued_at":  time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
		"expires_at": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"),
	}
	maps.Copy(body, changes)
	return body
}

// InProject returns the changes of a body with the scope of a project.
func InProject(id, domain string, roles ...string) map[string]any {
	project := Ref(id)
	project["domain"] = Ref(domain)
	return map[string]any{"project": project, "is_domain": false, "roles": refs(roles)}
}

// InDomain returns the changes of a body with the scope of a domain.
func InDomain(id string, roles ...string) map[string]any {
	return map[string]any{"domain": Ref(id), "roles": refs(roles)}
}

// Ref returns an object with an id and a name.
func Ref(id string) map[string]any { return map[string]any{"id": id, "name": "name of " + id} }

func refs(ids []string) []map[string]any {
	all := make([]map[string]any, len(ids))
	for i, id := range ids {
		all[i] = Ref(id)
	}
	return all
}

// Know makes a token valid.
func (k *Keystone) Know(token string, body map[string]any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tokens[token] = body
}

// Revoke makes a token invalid.
func (k *Keystone) Revoke(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.tokens, token)
}

// EndService ends the tokens of the account.
func (k *Keystone) EndService() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.services)
}

// SetPassword changes the password of the account.
func (k *Keystone) SetPassword(password string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.password = password
}

// Instead makes a function answer the requests for which it returns true; nil ends that.
func (k *Keystone) Instead(answer func(w http.ResponseWriter, req *http.Request) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.instead = answer
}

// Counts returns how many times the account has tried to log in, and how many tokens have
// been asked about with its token.
func (k *Keystone) Counts() (logins, lookups int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.logins, k.lookups
}

// Person is a user, whose id is the name.
type Person struct {
	Domain, Name, Password string
	// Projects are those where the user has a role, and Assignments all roles.
	Projects, Assignments []map[string]any
}

// SetPeople sets who may log in.
func (k *Keystone) SetPeople(people ...Person) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.people = people
}

// Attempts returns how often a user's password was wrong.
func (k *Keystone) Attempts() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.attempts
}

// find returns the user with an id, who has no name if there is none.
func (k *Keystone) find(id string) Person {
	for _, p := range k.people {
		if p.Name == id {
			return p
		}
	}
	return Person{}
}

func (k *Keystone) projectsOf(w http.ResponseWriter, req *http.Request) {
	projects := append([]map[string]any{}, k.find(req.PathValue("id")).Projects...)
	reply(w, http.StatusOK, map[string]any{"projects": projects, "links": map[string]any{"next": nil}})
}

// role answers with a role, that of a domain included.
func (k *Keystone) role(w http.ResponseWriter, req *http.Request) {
	for _, role := range slices.Concat(k.lists["roles"], k.lists["roles of domains"]) {
		if role["id"] == req.PathValue("id") {
			reply(w, http.StatusOK, map[string]any{"role": role})
			return
		}
	}
	fail(w, http.StatusNotFound, "Could not find role: "+req.PathValue("id"))
}

// Set sets what a collection has: domains, projects, roles or role_assignments, or "roles of
// domains", which are in no list.
func (k *Keystone) Set(collection string, objects ...map[string]any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lists[collection] = objects
}

// Domain returns a domain.
func Domain(id, name string, enabled bool) map[string]any {
	return map[string]any{"id": id, "name": name, "enabled": enabled}
}

// Project returns a project.
func Project(id, name, domain string, enabled bool) map[string]any {
	return map[string]any{"id": id, "name": name, "domain_id": domain, "parent_id": domain, "enabled": enabled, "is_domain": false}
}

// Assignment returns the assignment of a role in a project.
func Assignment(role, project string) map[string]any {
	return map[string]any{"role": map[string]any{"id": role}, "scope": map[string]any{"project": map[string]any{"id": project}}}
}

func (k *Keystone) list(w http.ResponseWriter, req *http.Request) {
	collection := req.PathValue("collection")
	objects := k.lists[collection]
	if id := req.URL.Query().Get("user.id"); id != "" && req.URL.Query().Has("effective") {
		objects = k.find(id).Assignments
	}
	if objects == nil {
		objects = []map[string]any{}
	}
	reply(w, http.StatusOK, map[string]any{collection: objects, "links": map[string]any{"next": nil, "self": k.URL + req.URL.Path}})
}

// admitted answers requests without the token of the account itself.
func (k *Keystone) admitted(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if !k.services[req.Header.Get("X-Auth-Token")] {
			fail(w, http.StatusUnauthorized, "The request you have made requires authentication.")
			return
		}
		answer(w, req)
	}
}

// login logs in the account or, by an explicit request without scope and without a token, a user.
func (k *Keystone) login(w http.ResponseWriter, req *http.Request) {
	var body struct {
		Auth struct {
			Identity struct {
				Password struct {
					User struct {
						Name, Password string
						Domain         struct{ ID string }
					}
				}
			}
			Scope any
		}
	}
	err := json.NewDecoder(req.Body).Decode(&body)
	user := body.Auth.Identity.Password.User
	if err == nil && body.Auth.Scope == "unscoped" && req.Header.Get("X-Auth-Token") == "" {
		k.logInUser(w, user.Domain.ID, user.Name, user.Password)
		return
	}
	k.logins++
	if err != nil || user.Name != "asker" || user.Password != k.password {
		fail(w, http.StatusUnauthorized, "wrong password "+user.Password)
		return
	}
	service := fmt.Sprintf("gAAAAAservice%d", k.logins)
	k.services[service] = true
	w.Header().Set("X-Subject-Token", service)
	reply(w, http.StatusCreated, map[string]any{"token": Body("asker", map[string]any{"catalog": []any{}})})
}

func (k *Keystone) logInUser(w http.ResponseWriter, domain, name, password string) {
	for _, p := range k.people {
		if p.Domain == domain && p.Name == name && p.Password == password {
			w.Header().Set("X-Subject-Token", Token(0))
			reply(w, http.StatusCreated, map[string]any{"token": Body(name, map[string]any{
				"user": map[string]any{"id": name, "name": name, "domain": Ref(domain)},
			})})
			return
		}
	}
	k.attempts++
	fail(w, http.StatusUnauthorized, "wrong password "+password)
}

func (k *Keystone) lookUp(w http.ResponseWriter, req *http.Request) {
	k.lookups++
	token := req.Header.Get("X-Subject-Token")
	body, ok := k.tokens[token]
	if !ok {
		fail(w, http.StatusNotFound, "Could not find token: "+token)
		return
	}
	reply(w, http.StatusOK, map[string]any{"token": body})
}

func fail(w http.ResponseWriter, status int, message string) {
	reply(w, status, map[string]any{"error": map[string]any{"code": status, "message": message, "title": http.StatusText(status)}})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Openstack-Request-Id", "req-"+strings.Repeat("0", 8))
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
