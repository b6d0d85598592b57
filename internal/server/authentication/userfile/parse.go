package userfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
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
// belongs to the system tenant. Other empty fields after the uid are errors, so that
// no comma too many makes a user one of the system tenant. Errors name the line.
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
	announced := len(fields) > 1 && fields[len(fields)-2] == ""
	if err := checkBlanks(fields, announced); err != nil {
		return nil, err
	}
	if announced {
		var err error
		if n, err = identity.ParseTenant(fields[len(fields)-1], true); err != nil {
			return nil, err
		}
		fields = fields[:len(fields)-2]
	}
	u := &user.DefaultInfo{Name: record[1], UID: record[2]}
	if len(fields) > 0 && fields[0] != "" {
		u.Groups = strings.Split(fields[0], ",")
	}
	return identity.New(u, n)
}

// checkBlanks refuses columns after the third that say nothing, unless they are where no
// groups are or where a tenant is announced: with one comma more or less than was meant, a
// tenant's user would be one of the system tenant.
func checkBlanks(fields []string, announced bool) error {
	last := len(fields) - 1
	for i, field := range fields {
		switch {
		case i == last-1 && field == "", i == 0 && field == "" && (announced || last == 0):
		case strings.TrimSpace(field) != "":
		case i == last:
			return fmt.Errorf("column %d, the last one, is empty; remove the comma before it, so that the tenant or what else is meant is last", i+4)
		default:
			return fmt.Errorf("column %d is empty, and the last but one is column %d; a tenant stands in the last column, with one empty column before it", i+4, last+3)
		}
	}
	if len(fields) > 0 && fields[0] != "" && slices.Contains(strings.Split(fields[0], ","), "") {
		return fmt.Errorf("column 4 is %q, with a group of no name; put groups alone into quotes, with one comma between them", fields[0])
	}
	return nil
}
