package server

import (
	"errors"
	"testing"
	"testing/synctest"

	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

// slowGroup is an API group whose hook fails at first.
type slowGroup struct {
	name     string
	attempts *int
}

func (g slowGroup) GroupName() string { return g.name }

func (slowGroup) NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	return genericapiserver.APIGroupInfo{}, nil
}

func (g slowGroup) PostStartHook() (string, genericapiserver.PostStartHookFunc, error) {
	return g.name, func(genericapiserver.PostStartHookContext) error {
		if *g.attempts++; *g.attempts == 1 {
			return errors.New("timed out")
		}
		return nil
	}, nil
}

// Upstream ends the process when the hook of a group fails.
func TestHooksOfGroupsAreTriedAgain(t *testing.T) {
	synctest.Test(t, testHooksOfGroups)
}

func testHooksOfGroups(t *testing.T) {
	for _, name := range []string{"", "rbac.authorization.k8s.io"} {
		attempts := 0
		wrapped := (&assembly{stores: &stores{}}).apiGroups([]controlplaneapiserver.RESTStorageProvider{slowGroup{name, &attempts}}, nil, nil)
		hooked, ok := wrapped[0].(genericapiserver.PostStartHookProvider)
		if !ok {
			t.Fatalf("group %q has no hook", name)
		}
		_, hook, err := hooked.PostStartHook()
		if err != nil {
			t.Fatal(err)
		}
		if err := hook(genericapiserver.PostStartHookContext{Context: t.Context()}); err != nil || attempts != 2 {
			t.Errorf("group %q: %d attempts, error %v", name, attempts, err)
		}
		for _, other := range wrapped[1:] {
			if _, ok := other.(genericapiserver.PostStartHookProvider); ok {
				t.Errorf("group %q has a hook", other.GroupName())
			}
		}
	}
}
