package keystone

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/runes"
	"golang.org/x/text/unicode/norm"

	"github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/internal/server/authentication/identity"
)

const (
	// maxUserName is the length of names, in characters, and maxPassword that of passwords, in
	// bytes, as Keystone has them by default.
	maxUserName, maxPassword = 255, 4096
	// maxGroups is how many roles on projects and the domain a user may have.
	maxGroups = 1024

	// Of a user, so many wrong passwords may follow each other, and one more after each pause.
	// Keystone may lock users after some.
	userAttempts, userPause = 5, 30 * time.Second
	// The same for an address, which may be that of many users.
	addressAttempts, addressPause = 20, 3 * time.Second
)

var errPassword = identity.Refuse("wrong user name or password, or a user that Keystone does not let in")

// Password authenticates a user of a domain by a password. What is remembered holds for the
// life of a tenant: binding changes with it.
func (a *Authenticator) Password(ctx context.Context, binding, domainID, name, password string) (*Identity, error) {
	if !isText(name) || utf8.RuneCountInString(name) > maxUserName || !isText(password) || len(password) > maxPassword {
		if err := a.LimitAddress(ctx); err != nil { // as where no passwords are taken
			return nil, err
		}
		return nil, errPassword
	}
	client := addressOf(ctx)                                                              // that of the look-up has none: it may be for several requests
	digest := a.digest(strings.Join([]string{binding, domainID, name, password}, "\x00")) // which is in none of them
	found, err := a.passwords.find(ctx, digest, func(ctx context.Context) (verdict, time.Time, error) {
		begin := time.Now()
		giveBack, err := a.attempt(client, domainID, name)
		if err != nil {
			return verdict{}, time.Time{}, err
		}
		answer, err := a.config.LogIn(ctx, domainID, name, keystone.Secret(password))
		if !errors.Is(err, keystone.ErrNotValid) && !errors.Is(err, keystone.ErrNoAnswer) {
			giveBack() // Keystone has not counted it
		}
		if err != nil {
			return verdict{}, time.Time{}, err
		}
		a.known.Add(at{client, userOf(domainID, name)}, true)
		found := verdict{}
		if found.identity, found.refused = identityOfAccess(answer, domainID); found.refused == nil {
			found.identity.IssuedAt = begin // by the clock that tells the age of tenants
		}
		return found, answer.Token.ExpiresAt, nil
	})
	if err == nil && found == nil {
		return nil, errPassword
	}
	return found, err
}

// isText reports whether a name or a password may be sent: what is not UTF-8 would be sent as
// something else, and control characters are cut or replaced on the way to some stores of users.
func isText(s string) bool {
	return s != "" && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// spelling returns what is equal of names that a store of users may take for one another, as the collations of MySQL
// and MariaDB do: without case, accents, strokes, widths, spaces around it and characters that nobody sees. Users of
// equal spellings share their attempts. Collations differ (ß is s, or ss), so more is equal here than in any of them.
func spelling(name string) string {
	folded := cases.Fold().String(norm.NFKD.String(name)) // which makes ss of ß
	folded = letters.Replace(runes.Remove(runes.Predicate(unseen)).String(norm.NFKD.String(folded)))
	folded = strings.Map(oneOf, folded)
	for before := ""; before != folded; {
		before, folded = folded, strings.ReplaceAll(folded, "ss", "s")
	}
	return strings.TrimSpace(folded)
}

// unseen reports whether a character changes no letter, or is part of another, such as an accent.
func unseen(r rune) bool {
	return unicode.In(r, unicode.M, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point)
}

// letters replaces those that are variants of others, or two, without being composed of them in Unicode.
var letters = strings.NewReplacer(
	"ı", "i", "ȷ", "j", "ø", "o", "ł", "l", "đ", "d", "ð", "d", "ħ", "h", "ŧ", "t", "þ", "th", "æ", "ae", "œ", "oe", "ŋ", "n", "ĸ", "k",
	"ƀ", "b", "ȼ", "c", "ɇ", "e", "ǥ", "g", "ɨ", "i", "ɉ", "j", "ƚ", "l", "ɍ", "r", "ʉ", "u", "ɏ", "y", "ƶ", "z", "ⱥ", "a", "ⱦ", "t",
	"·", "", "ʼ", "", // what is left of ŀ and ŉ
	"ぁ", "あ", "ぃ", "い", "ぅ", "う", "ぇ", "え", "ぉ", "お", "ゕ", "か", "ゖ", "け", "っ", "つ", "ゃ", "や", "ゅ", "ゆ", "ょ", "よ", "ゎ", "わ",
	"ァ", "あ", "ィ", "い", "ゥ", "う", "ェ", "え", "ォ", "お", "ヵ", "か", "ヶ", "け", "ッ", "つ", "ャ", "や", "ュ", "ゆ", "ョ", "よ", "ヮ", "わ",
)

// oneOf makes one character of several: of katakana hiragana, and of all beyond the first plane a question mark, which
// is what three bytes for a character (utf8mb3) make of them.
func oneOf(r rune) rune {
	switch {
	case r >= 'ァ' && r <= 'ヶ':
		return r - ('ァ' - 'ぁ')
	case r > 0xFFFF:
		return '?'
	default:
		return r
	}
}

// at is a user at an address.
type at struct{ client, user string }

// userOf returns by what the attempts of a user are counted.
func userOf(domainID, name string) string { return domainID + ":" + spelling(name) }

// attempt counts an attempt with a password, until it is given back, or returns when there may
// be one.
func (a *Authenticator) attempt(client, domainID, name string) (giveBack func(), err error) {
	now, user := time.Now(), userOf(domainID, name)
	// Somebody else at an address, which may be that of a proxy, does not keep out who has logged in from there.
	_, known := a.known.Get(at{client, user})
	if !known {
		if wait := a.addresses.take(client, now); wait > 0 {
			return nil, &identity.Limited{After: wait}
		}
	}
	// An address that may try no more takes no place among the users that are counted.
	if wait := a.users.take(user, now); wait > 0 {
		if !known {
			a.addresses.giveBack(client)
		}
		return nil, &identity.Limited{After: wait}
	}
	return func() {
		a.users.giveBack(user)
		if !known {
			a.addresses.giveBack(client)
		}
	}, nil
}

// LimitAddress counts an attempt of an address alone. Attempts at tenants that take no passwords are counted too;
// otherwise a 429 would tell which tenants take them.
func (a *Authenticator) LimitAddress(ctx context.Context) error {
	if wait := a.addresses.take(addressOf(ctx), time.Now()); wait > 0 {
		return &identity.Limited{After: wait}
	}
	return nil
}

// identityOfAccess returns who has logged in, in all groups that tokens of the user in the domain
// would have.
func identityOfAccess(access *keystone.Access, domainID string) (*Identity, error) {
	if len(access.Roles) > maxGroups {
		return nil, identity.Refuse("user %q has %d roles on projects of the domain and on itself, and may have %d to log in with a password; use a token",
			access.Token.User.ID, len(access.Roles), maxGroups)
	}
	found, err := identityOf(access.Token, false)
	if err != nil {
		return nil, err
	}
	found.DomainID = domainID
	e := extra(found.User.Extra)
	e.add(extraDomainID, domainID)
	e.add(extraPassword, "true")
	for _, role := range access.Roles {
		scope := identity.KeystoneDomain + domainID
		if role.ProjectID != "" {
			scope = identity.KeystoneProject + role.ProjectID
		}
		found.User.Groups = append(found.User.Groups, scope+":"+role.RoleID)
	}
	return found, nil
}
