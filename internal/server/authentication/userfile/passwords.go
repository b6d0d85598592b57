package userfile

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/process/processors"
	"github.com/tenantry/tenantry/internal/server/authentication/watchedfile"
)

var errWrongPassword = errors.New("invalid user name or password")

// Passwords authenticates by a basic-auth file (--basic-auth-file).
type Passwords struct {
	*watchedfile.File[passwords]
	// key is the key of the digests of accepted passwords.
	key []byte
	// comparing limits concurrent comparisons with hashes, so that guessing passwords does not
	// occupy every core.
	comparing chan struct{}
}

// passwords holds users by name.
type passwords struct {
	users map[string]*account
	// decoy is compared with if a user does not exist, so that the response takes the
	// same time. Nil if no password of the file is hashed.
	decoy *account
}

type account struct {
	user *user.DefaultInfo
	// password is plain, or hashed if verify is set.
	password string
	verify   func(hash, password string) bool
	// verified is a keyed digest of the last accepted password, because it is slow to compare
	// with a hash.
	verified atomic.Pointer[[sha256.Size]byte]
}

// OpenPasswords reads a basic-auth file.
func OpenPasswords(path string) (Passwords, error) {
	p := Passwords{key: make([]byte, sha256.Size), comparing: make(chan struct{}, max(1, processors.Cores()/2))}
	if _, err := rand.Read(p.key); err != nil {
		return p, fmt.Errorf("making a key: %w", err)
	}
	var err error
	p.File, err = open("basic-auth", path, parsePasswords)
	return p, err
}

// AuthenticateRequest implements authenticator.Request.
func (p Passwords) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	name, password, ok := req.BasicAuth()
	if !ok {
		return nil, false, nil
	}
	u, err := p.check(req.Context(), name, password)
	if err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: u}, true, nil
}

// Knows reports whether a request names a user of the file.
func (p Passwords) Knows(req *http.Request) bool {
	name, _, _ := req.BasicAuth()
	return p.Current().users[name] != nil
}

func (p Passwords) check(ctx context.Context, name, password string) (*user.DefaultInfo, error) {
	file := p.Current()
	a, known := file.users[name]
	if !known {
		a = &account{}
	}
	digest := p.digest(password)
	if verified := a.verified.Load(); verified != nil && hmac.Equal(verified[:], digest[:]) {
		return a.user, nil
	}
	hashed := a
	if a.verify == nil {
		hashed = file.decoy
	}
	matches := false
	if hashed != nil {
		select {
		case p.comparing <- struct{}{}:
			matches = hashed.verify(hashed.password, password)
			<-p.comparing
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if a.verify == nil {
		expected := p.digest(a.password)
		matches = hmac.Equal(expected[:], digest[:])
	}
	if !known || !matches {
		return nil, errWrongPassword
	}
	a.verified.Store(&digest)
	return a.user, nil
}

func (p Passwords) digest(password string) [sha256.Size]byte {
	h := hmac.New(sha256.New, p.key)
	h.Write([]byte(password))
	return [sha256.Size]byte(h.Sum(nil))
}

func parsePasswords(content []byte) (passwords, error) {
	result := passwords{users: make(map[string]*account)}
	err := parse(content, func(password string, u *user.DefaultInfo) error {
		if strings.Contains(u.Name, ":") {
			return fmt.Errorf("user %q cannot log in: HTTP's basic authentication knows no user names with a colon", u.Name)
		}
		if _, ok := result.users[u.Name]; ok {
			return fmt.Errorf("user %q stands in an earlier line too", u.Name)
		}
		a := &account{user: u, password: password}
		var err error
		if a.verify, err = verifier(password); err != nil {
			return err
		}
		if a.verify != nil && result.decoy == nil {
			result.decoy = a
		}
		result.users[u.Name] = a
		return nil
	})
	return result, err
}
