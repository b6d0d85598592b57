package userfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
)

// parse calls add for every line of a file of the form
//
//	secret,user,uid[,"groups"[,other...]][,,tenant]
//
// An empty field before the last one announces a tenant; without it the user
// belongs to the system tenant. Errors name the line.
func parse(content []byte, add func(secret string, u *user.DefaultInfo) error) error {
	reader := csv.NewReader(bytes.NewReader(content))
	reader.FieldsPerRecord = -1
	for {
		record, err := reader.Read()
		var malformed *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &malformed):
			return fmt.Errorf("line %d: %w", malformed.StartLine, malformed.Err)
		case err != nil:
			return err
		}
		line, _ := reader.FieldPos(0)
		u, err := userOfRecord(record)
		if err == nil {
			err = add(record[0], u)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

func userOfRecord(record []string) (*user.DefaultInfo, error) {
	if len(record) < 3 {
		return nil, fmt.Errorf("want at least 3 columns (secret, user, uid), found %d", len(record))
	}
	if record[0] == "" || record[1] == "" {
		return nil, errors.New("the first two columns, secret and user, must not be empty")
	}
	n, fields := tenant.System, record[3:]
	if last := len(fields) - 1; last > 0 && fields[last-1] == "" {
		var err error
		if n, err = identity.ParseTenant(fields[last], true); err != nil {
			return nil, err
		}
		fields = fields[:last-1]
	}
	u := &user.DefaultInfo{Name: record[1], UID: record[2]}
	if len(fields) > 0 && fields[0] != "" {
		u.Groups = strings.Split(fields[0], ",")
	}
	return identity.New(u, n)
}
