package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	clientauthenticationv1beta1 "k8s.io/client-go/pkg/apis/clientauthentication/v1beta1"
)

const (
	// execInfo is the variable in which client-go says what it wants.
	execInfo = "KUBERNETES_EXEC_INFO"

	// again is for how long a client that asks once more may do so because the server has
	// refused the token. Clients do not say that.
	again = 30 * time.Second
	// verifyPeriod is how often, at most, Keystone is asked whether a token is good, and
	// verifyTimeout how long it may take: without an answer the server decides.
	verifyPeriod  = 5 * time.Second
	verifyTimeout = 5 * time.Second
	// refusedPeriod is for how long a refused log-in is not tried again. kubectl asks several
	// times at once, and Keystone may lock users with too many failures.
	refusedPeriod = 10 * time.Second
)

// Options say who logs in where. The zero value is what the environment says.
type Options struct {
	// Cloud is a name in clouds.yaml. By default OS_CLOUD, or the variables OS_*, or the
	// only one in clouds.yaml.
	Cloud string
	// ConfigFile is that file. By default it is looked for where OpenStack's clients do.
	ConfigFile string
	// Settings replace those of the cloud, by name.
	Settings map[string]string
	// CacheDir is where tokens are kept. By default it is in the user's cache directory.
	CacheDir string
	NoCache  bool
	// Timeout is how long a log-in may take.
	Timeout time.Duration
	// Ask asks the user for a secret. Nil if there is nobody to ask.
	Ask func(ctx context.Context, prompt string) (string, error)
}

// Run prints an ExecCredential.
func (o *Options) Run(ctx context.Context, out io.Writer) error {
	answer := clientauthentication.ExecCredential{TypeMeta: metav1.TypeMeta{
		APIVersion: clientauthentication.SchemeGroupVersion.String(), Kind: "ExecCredential"}}
	if info := os.Getenv(execInfo); info != "" {
		var asked clientauthentication.ExecCredential
		if err := json.Unmarshal([]byte(info), &asked); err != nil {
			return fmt.Errorf("%s is no ExecCredential in JSON", execInfo)
		}
		switch asked.APIVersion {
		case answer.APIVersion, clientauthenticationv1beta1.SchemeGroupVersion.String(): // which are alike
			answer.APIVersion = asked.APIVersion
		default:
			return fmt.Errorf("%s asks for %q: set apiVersion to %s in the kubeconfig's section \"exec\"", execInfo, asked.APIVersion, answer.APIVersion)
		}
		if !asked.Spec.Interactive {
			o.Ask = nil
		}
	}
	t, err := o.token(ctx)
	if err != nil {
		return err
	}
	answer.Status = &clientauthentication.ExecCredentialStatus{Token: t.ID, ExpirationTimestamp: &metav1.Time{Time: t.Expires}}
	return json.NewEncoder(out).Encode(answer)
}

// token returns a token that is kept, or a new one.
func (o *Options) token(ctx context.Context) (token, error) {
	asked := time.Now()
	c, err := o.resolve()
	if err != nil {
		return token{}, err
	}
	l, err := newLogin(c)
	if err != nil {
		return token{}, err
	}
	k, err := newKeystone(l)
	if err != nil {
		return token{}, err
	}
	if o.NoCache {
		return o.logIn(ctx, k)
	}
	directory, err := o.directory()
	if err != nil {
		return token{}, err
	}
	waiting, stop := context.WithTimeout(ctx, 2*o.Timeout) // others may take it, too
	defer stop()
	kept, err := open(waiting, directory, l.key())
	if err != nil {
		return token{}, err
	}
	defer kept.close()
	r := kept.read()
	if r.ID != "" && time.Now().Before(r.Expires) {
		before := r
		if k.usable(ctx, &r) {
			if r != before {
				err = kept.write(r)
			}
			return r.token, err
		}
	}
	if within(r.Failed, time.Since(asked)) || r.Refused && within(r.Failed, refusedPeriod) {
		return token{}, fmt.Errorf("%s (tried %s ago)", r.Failure, time.Since(r.Failed).Round(time.Second))
	}
	return o.renew(ctx, k, kept)
}

// directory returns where tokens are kept.
func (o *Options) directory() (string, error) {
	if o.CacheDir != "" {
		return o.CacheDir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", unusable("the user's cache directory", err)
	}
	return filepath.Join(cache, "tenantry", "keystone"), nil
}

// renew logs in and keeps what comes of it.
func (o *Options) renew(ctx context.Context, k *keystone, kept *locked) (token, error) {
	typed := len(k.missing()) > 0
	t, err := o.logIn(ctx, k)
	if err == nil {
		kept.sweep()
		now := time.Now()
		return t, kept.write(record{token: t, Given: now, Verified: now})
	}
	// What somebody types may be right the next time, and the next passcode is another.
	if !typed && !errors.Is(err, context.Canceled) {
		_, refused := errors.AsType[refusal](err)
		refused = refused && k.get("passcode") == ""
		_ = kept.write(record{Failed: time.Now(), Failure: err.Error(), Refused: refused})
	}
	return token{}, err
}

// usable reports whether a token that has not expired can be given once more, and notes that it
// is. One that is asked for again soon may have been refused by the server, so Keystone is asked.
func (k *keystone) usable(ctx context.Context, r *record) bool {
	now := time.Now()
	switch {
	case !within(r.Given, again):
		r.Given = now
		return true
	case within(r.Verified, verifyPeriod):
		return true
	}
	r.Given, r.Verified = now, now
	ctx, stop := context.WithTimeout(ctx, verifyTimeout)
	defer stop()
	valid, err := k.valid(ctx, r.ID)
	return valid || err != nil
}

// within reports whether t was less than d ago.
func within(t time.Time, d time.Duration) bool {
	age := time.Since(t)
	return 0 <= age && age < d
}

// logIn logs in, and asks for what is missing.
func (o *Options) logIn(ctx context.Context, k *keystone) (token, error) {
	for _, name := range k.missing() {
		if err := o.ask(ctx, k, name); err != nil {
			return token{}, err
		}
	}
	ctx, stop := context.WithTimeout(ctx, o.Timeout)
	defer stop()
	return k.logIn(ctx)
}

// ask asks the user for a secret.
func (o *Options) ask(ctx context.Context, k *keystone, name string) error {
	switch {
	case name != "password" && name != "passcode":
		return k.errorf("%s is missing", k.name(name))
	case o.Ask == nil && name == "passcode":
		return k.errorf("the passcode is missing, and nobody can be asked for it: set OS_PASSCODE")
	case o.Ask == nil:
		return k.errorf("%s is missing, and nobody can be asked for it: set it, in a file of clouds or in the secure.yaml beside it", k.name(name))
	}
	secret, err := o.Ask(ctx, fmt.Sprintf("%s%s of %s at %s: ", strings.ToUpper(name[:1]), name[1:], k.who(), k.url))
	if err != nil {
		return fmt.Errorf("asking for the %s: %w", name, err)
	}
	if secret == "" {
		return k.errorf("the %s is empty", name)
	}
	k.settings[name] = secret
	return nil
}
