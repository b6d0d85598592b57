package authentication

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/tenant"
)

// tokenFile holds users by the hash of their token, so that a lookup takes the
// same time whatever part of a token was guessed right.
type tokenFile map[[sha256.Size]byte]*user.DefaultInfo

// AuthenticateToken implements authenticator.Token.
func (f tokenFile) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	u, ok := f[sha256.Sum256([]byte(token))]
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: u}, true, nil
}

// readTokenFile reads --token-auth-file (arktos-access-control, "Token File
// Authenticator"):
//
//	token,user,uid[,"groups"[,other...]][,,tenant]
//
// An empty field before the last one announces a tenant; without it the user
// belongs to the system tenant. The field after uid is never such an
// announcement alone: "t,u,id,," is refused, because it names no tenant.
func readTokenFile(path string) (tokenFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading token file: %w", err)
	}
	defer file.Close()
	reader := csv.NewReader(file)
	reader.FieldsPerRecord = -1
	tokens := make(tokenFile)
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return tokens, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading token file %q: %w", path, err)
		}
		line, _ := reader.FieldPos(0)
		u, err := userOfRecord(record)
		if err != nil {
			return nil, fmt.Errorf("token file %q, line %d: %w", path, line, err)
		}
		key := sha256.Sum256([]byte(record[0]))
		if _, ok := tokens[key]; ok {
			return nil, fmt.Errorf("token file %q, line %d: the token of user %q stands in an earlier line too", path, line, u.Name)
		}
		tokens[key] = u
	}
}

func userOfRecord(record []string) (*user.DefaultInfo, error) {
	if len(record) < 3 {
		return nil, fmt.Errorf("want at least 3 columns (token, user, uid), found %d", len(record))
	}
	if record[0] == "" || record[1] == "" {
		return nil, errors.New("token and user must not be empty")
	}
	u := &user.DefaultInfo{Name: record[1], UID: record[2]}
	n, fields := tenant.System, record[3:]
	if last := len(fields) - 1; last > 0 && fields[last-1] == "" {
		parsed, err := tenant.Parse(fields[last])
		if err != nil {
			return nil, err
		}
		if parsed == tenant.All {
			return nil, fmt.Errorf("tenant %q is reserved", parsed)
		}
		n, fields = parsed, fields[:last-1]
	}
	if len(fields) > 0 && fields[0] != "" {
		u.Groups = strings.Split(fields[0], ",")
	}
	u.Extra = map[string][]string{tenant.UserExtraKey: {string(n)}}
	return u, nil
}
