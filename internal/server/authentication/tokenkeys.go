package authentication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	jose "gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/tenantry/tenantry/internal/server/authentication/watchedfile"
)

var tokenKeyReloads = metrics.NewCounterVec(&metrics.CounterOpts{
	Name: "tenantry_service_account_key_reloads_total",
	Help: "Times a changed file of --service-account-key-file or --service-account-signing-key-file was read again, " +
		"by result (success, failure: the last valid keys stay in force).",
	StabilityLevel: metrics.ALPHA,
}, []string{"result"})

func init() { legacyregistry.MustRegister(tokenKeyReloads) }

// TokenKeys are the keys of tokens of service accounts: one signs, and all verify. They are
// read again when their files change. A key signs when this server verifies by it, so that
// none of its tokens is refused here.
type TokenKeys struct {
	signing   *watchedfile.File[any] // nil if nothing signs here
	verifying []*watchedfile.File[[]any]

	mu        sync.Mutex // held by update
	signer    atomic.Pointer[any]
	public    atomic.Pointer[serviceaccount.PublicKeysGetter]
	listeners []serviceaccount.Listener
	// reported gets what was reported, for tests.
	reported func(error)
}

var _ serviceaccount.PublicKeysGetter = &TokenKeys{}

// OpenTokenKeys reads the file of the private key that signs, if there is one, and those of
// the keys that verify.
func OpenTokenKeys(signing string, verifying []string) (*TokenKeys, error) {
	k := &TokenKeys{}
	for _, path := range verifying {
		file, err := watchedfile.Open(path, parsePublicKeys, k.changed)
		if err != nil {
			return nil, fmt.Errorf("--service-account-key-file: %w", err)
		}
		k.verifying = append(k.verifying, file)
	}
	if signing != "" {
		var err error
		if k.signing, err = watchedfile.Open(signing, keyutil.ParsePrivateKeyPEM, k.changed); err != nil {
			return nil, fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
		k.signer.Store(new(k.signing.Current()))
	}
	return k, k.update()
}

func parsePublicKeys(content []byte) ([]any, error) { return keyutil.ParsePublicKeysPEM(content) }

// Run reads the files again when they change, until ctx ends.
func (k *TokenKeys) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, file := range k.verifying {
		all.Go(func() { file.Run(ctx) })
	}
	if k.signing != nil {
		all.Go(func() { k.signing.Run(ctx) })
	}
	all.Wait()
}

// changed takes over what a file has now.
func (k *TokenKeys) changed(err error) {
	if err == nil {
		err = k.update()
	}
	if k.reported != nil {
		k.reported(err)
	}
	if err != nil {
		tokenKeyReloads.WithLabelValues("failure").Inc()
		klog.ErrorS(err, "Keys of service accounts not read again, the last valid ones stay in force")
		return
	}
	tokenKeyReloads.WithLabelValues("success").Inc()
	klog.InfoS("Keys of service accounts read again")
}

func (k *TokenKeys) update() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []any
	seen := map[string]bool{}
	for _, file := range k.verifying {
		for _, key := range file.Current() {
			id, err := keyID(key)
			if err != nil {
				return err
			}
			if !seen[id] { // the discovery document would have it twice
				seen[id], all = true, append(all, key)
			}
		}
	}
	public, err := serviceaccount.StaticPublicKeysGetter(all)
	if err != nil {
		return fmt.Errorf("reading the keys that verify tokens: %w", err)
	}
	k.public.Store(&public)
	for _, listener := range k.listeners {
		listener.Enqueue()
	}
	return k.changeSigner(public)
}

var errUnverified = errors.New("the key of --service-account-signing-key-file is in no --service-account-key-file: tokens are signed by the one before until it is")

func (k *TokenKeys) changeSigner(public serviceaccount.PublicKeysGetter) error {
	if k.signing == nil {
		return nil
	}
	next := k.signing.Current()
	id, err := keyID(next)
	switch {
	case err != nil:
		return err
	case len(public.GetPublicKeys(context.Background(), id)) == 0:
		return errUnverified
	}
	k.signer.Store(&next)
	return nil
}

func keyID(key any) (string, error) {
	alone, err := serviceaccount.StaticPublicKeysGetter([]any{key})
	if err != nil {
		return "", fmt.Errorf("reading a key of service accounts: %w", err)
	}
	return alone.GetPublicKeys(context.Background(), "")[0].KeyID, nil
}

// Signing returns the private key that signs, nil if none does.
func (k *TokenKeys) Signing() any {
	if k == nil || k.signing == nil {
		return nil
	}
	return *k.signer.Load()
}

// knows reports whether a token names a key that verifies. Its signature is not looked at.
func (k *TokenKeys) knows(token string) bool {
	parsed, err := jwt.ParseSigned(token)
	return err == nil && slices.ContainsFunc(parsed.Headers, func(h jose.Header) bool {
		return len(k.GetPublicKeys(context.Background(), h.KeyID)) > 0
	})
}

// AddListener implements serviceaccount.PublicKeysGetter.
func (k *TokenKeys) AddListener(listener serviceaccount.Listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listeners = append(k.listeners, listener)
}

func (k *TokenKeys) removeListener(listener serviceaccount.Listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listeners = slices.DeleteFunc(k.listeners, func(l serviceaccount.Listener) bool { return l == listener })
}

// GetCacheAgeMaxSeconds implements serviceaccount.PublicKeysGetter.
func (k *TokenKeys) GetCacheAgeMaxSeconds() int { return (*k.public.Load()).GetCacheAgeMaxSeconds() }

// GetPublicKeys implements serviceaccount.PublicKeysGetter.
func (k *TokenKeys) GetPublicKeys(ctx context.Context, keyID string) []serviceaccount.PublicKey {
	return (*k.public.Load()).GetPublicKeys(ctx, keyID)
}
