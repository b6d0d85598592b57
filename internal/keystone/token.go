package keystone

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Secret is a token or a password, which is not printed.
type Secret string

// String implements fmt.Stringer.
func (Secret) String() string { return "[redacted]" }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return "[redacted]" }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// Ref names an object of Keystone. Names are arbitrary, and change.
type Ref struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// maxName bounds names that are shown, in characters. Keystone has up to 255.
const maxName = 255

// Printable returns a name as it may stand in annotations, in logs and on terminals.
func Printable(name string) string {
	characters := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, name))
	return string(characters[:min(len(characters), maxName)])
}

// Owned is an object in a domain.
type Owned struct {
	Ref
	Domain Ref `json:"domain"`
}

// User is whom a token is for.
type User struct {
	Owned
	// Federation has the groups of a federated user, which are in its tokens alone.
	Federation struct {
		Groups []Ref `json:"groups"`
	} `json:"OS-FEDERATION"`
}

// Token is what Keystone says of a valid token. At most one of Project, Domain and System
// is its scope.
type Token struct {
	User    User     `json:"user"`
	Project *Owned   `json:"project"`
	Domain  *Ref     `json:"domain"`
	System  struct { // the scope of those who administer the cloud
		All bool `json:"all"`
	} `json:"system"`
	Roles                 []Ref                  `json:"roles"`
	Methods               []string               `json:"methods"`
	AuditIDs              []string               `json:"audit_ids"`
	IssuedAt              time.Time              `json:"issued_at"`
	ExpiresAt             time.Time              `json:"expires_at"`
	ApplicationCredential *ApplicationCredential `json:"application_credential"`
	Trust                 *Trust                 `json:"OS-TRUST:trust"`
}

// ApplicationCredential is that by which a token was made.
type ApplicationCredential struct {
	Ref
	// Restricted ones cannot make further credentials in Keystone.
	Restricted bool `json:"restricted"`
}

// Trust is that by which a token was made. One that impersonates makes tokens of
// the user that gave it, for the user that has it.
type Trust struct {
	ID            string `json:"id"`
	Impersonation bool   `json:"impersonation"`
	Trustee       Ref    `json:"trustee_user"`
}

var errIncomplete = errors.New("the answer lacks what every token has, or has ids that are none")

// validate refuses answers with which no user could be told from another.
func (t *Token) validate() error {
	ids := []string{t.User.ID}
	if t.Project != nil {
		ids = append(ids, t.Project.ID)
	}
	if t.Domain != nil {
		ids = append(ids, t.Domain.ID)
	}
	for _, role := range t.Roles {
		ids = append(ids, role.ID)
	}
	scopes := 0
	for _, is := range []bool{t.Project != nil, t.Domain != nil, t.System.All} {
		if is {
			scopes++
		}
	}
	if slices.ContainsFunc(ids, func(id string) bool { return !isID(id) }) || scopes > 1 || t.IssuedAt.IsZero() || t.ExpiresAt.IsZero() {
		return errIncomplete
	}
	return nil
}

// isID reports whether a string is an id of Keystone, which has no colon: ids are 32 or 64
// hexadecimal digits, unless an administrator, or another source of users, has chosen others.
func isID(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, idCharacters) == ""
}

const idCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@"
