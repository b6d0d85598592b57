//go:build node

package node

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// volumes are what an administrator of the host has for spaces: a class without a provisioner, and a volume on the
// node.
const volumes = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: of-spaces, annotations: {multi-tenancy.k8s.io/published: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: of-spaces}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: of-spaces
  local: {path: DIRECTORY}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node]}]}]}}
`

// storingSet has a process that has a file of its volume locked for as long as it runs, and does not end when it is
// told to.
const storingSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  selector: {matchLabels: {app: db}}
  serviceName: db
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 20
      containers:
      - name: c
        image: localhost/pause:1
        imagePullPolicy: IfNotPresent
        args: [-lock, /state/lock]
        lifecycle: {preStop: {exec: {command: [/tenantry, -after, 4s, -write, /state/stopped, bye]}}}
        volumeMounts: [{name: state, mountPath: /state}]
  volumeClaimTemplates:
  - metadata: {name: state}
    spec: {storageClassName: of-spaces, accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Mi}}}
`

const claimOfAnother = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: NAME}
spec: {storageClassName: of-spaces, accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Mi}}, VOLUME}
`

// scratchPod has a claim of its own.
const scratchPod = `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: "localhost/pause:1", imagePullPolicy: IfNotPresent, volumeMounts: [{name: scratch, mountPath: /scratch}]}]
  volumes:
  - name: scratch
    ephemeral: {volumeClaimTemplate: {spec: {storageClassName: of-spaces, accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Mi}}}}}
`

// storing are the specs of pods that store something.
func storing(of func() *standalone) {
	var tenantry *standalone
	var directory string
	var acme, globex []string

	create := func(to []string, verb, manifest string) (string, error) {
		file := filepath.Join(tenantry.dir, "volumes.yaml")
		Expect(os.WriteFile(file, []byte(manifest), 0o600)).To(Succeed())
		return kubectl(append(to, verb, "-f", file)...)
	}
	uid := func() string { return tenantry.get("acme", "pod/db-0", ".metadata.uid") }
	// replaced waits until another pod than that of a UID runs. It is to have found that nobody else runs.
	replaced := func(before string) {
		GinkgoHelper()
		Eventually(uid).ShouldNot(Or(BeEmpty(), Equal(before)))
		tenantry.ready("acme", "db-0")
		Expect(tenantry.get("acme", "pod/db-0", ".status.containerStatuses[0].restartCount")).To(Equal("0"))
		Expect(filepath.Join(directory, "lock.taken")).NotTo(BeAnExistingFile())
	}

	BeforeAll(func() {
		tenantry = of()
		var err error
		directory, err = os.MkdirTemp("", "tenantry-volume-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, directory)
		Expect(os.Chmod(directory, 0o777)).To(Succeed())
		onHost := strings.ReplaceAll(volumes, "DIRECTORY", directory)
		_, err = create(nil, "apply", onHost)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _, _ = create(nil, "delete", onHost) })
		class, _, _ := strings.Cut(onHost, "---")
		_, err = create([]string{"--kubeconfig", tenantry.admin()}, "apply", class)
		Expect(err).NotTo(HaveOccurred())
		acme, globex = tenantry.as("acme"), tenantry.as("globex")
		Eventually(tenantry.get).WithArguments("acme", "storageclass/of-spaces", ".metadata.name").Should(Equal("of-spaces"))
		_, err = create(acme, "create", storingSet)
		Expect(err).NotTo(HaveOccurred())
		must(append(acme, "rollout", "status", "statefulset/db", "--timeout=3m")...)
	})

	It("have their time to end, after what they do first, and keep what they have stored", func() {
		must(append(acme, "exec", "db-0", "--", "/tenantry", "-write", "/state/file", "of acme")...)
		onHost := func() string {
			return must("get", "pods", "-A", "-l", "app=db", "-o", "jsonpath={.items[*].metadata.uid}")
		}
		before, there, began := uid(), onHost(), time.Now()
		Expect(there).NotTo(BeEmpty())
		must(append(acme, "delete", "pod", "db-0")...)
		Expect(time.Since(began)).To(BeNumerically(">", 19*time.Second), "it ends when its time is over")
		Expect(onHost()).NotTo(ContainSubstring(there))
		Expect(os.ReadFile(filepath.Join(directory, "stopped"))).To(Equal([]byte("bye")))
		replaced(before)
		Expect(must(append(acme, "exec", "db-0", "--", "/tenantry", "-read", "/state/file")...)).To(Equal("of acme"))
		Expect(os.ReadFile(filepath.Join(directory, "file"))).To(Equal([]byte("of acme")))
	})

	It("are never twice, however they are deleted", func() {
		file, err := os.Open(filepath.Join(directory, "lock"))
		Expect(err).NotTo(HaveOccurred())
		defer file.Close()
		Expect(syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)).To(MatchError(syscall.EWOULDBLOCK))
		before := uid()
		must(append(acme, "delete", "pod", "db-0", "--force")...)
		replaced(before)

		before = uid()
		must("cordon", "node")
		DeferCleanup(func() { must("uncordon", "node") })
		must(append(acme, "delete", "pod", "db-0", "--force")...)
		Eventually(uid).ShouldNot(Or(BeEmpty(), Equal(before)))
		Eventually(tenantry.get).WithArguments("acme", "pod/db-0", `.status.conditions[?(@.type=="PodScheduled")].reason`).Should(Equal("Unschedulable"))
		unbound := uid()
		must("uncordon", "node")
		must(append(acme, "delete", "pod", "db-0", "--force")...)
		replaced(unbound)
	})

	It("count with the claims that are their own, until these end with them", func() {
		must(append(acme, "create", "quota", "claims", "--hard=persistentvolumeclaims=2")...)
		DeferCleanup(func() { must(append(acme, "delete", "quota", "claims")...) })
		used := func() string { return tenantry.get("acme", "quota/claims", ".status.used.persistentvolumeclaims") }
		claim := func(pod string) string { return tenantry.get("acme", "pvc/"+pod+"-scratch", ".metadata.name") }
		Eventually(used).Should(Equal("1"), "that of the StatefulSet")
		tenantry.apply("acme", strings.ReplaceAll(scratchPod, "NAME", "first"))
		Eventually(claim).WithArguments("first").ShouldNot(BeEmpty())
		Eventually(used).Should(Equal("2"))
		tenantry.apply("acme", strings.ReplaceAll(scratchPod, "NAME", "second"))
		Eventually(func() string { return must(append(acme, "events", "--for=pod/second")...) }).Should(ContainSubstring("exceeded quota: claims"))
		Expect(claim("second")).To(BeEmpty())
		must(append(acme, "delete", "pod", "first", "--now")...)
		Eventually(claim).WithArguments("second").WithTimeout(3 * time.Minute).ShouldNot(BeEmpty())
		Expect(claim("first")).To(BeEmpty())
		must(append(acme, "delete", "pod", "second", "--now")...)
		Eventually(used).Should(Equal("1"))
	})

	It("are nobody else's", func() {
		theirs := must(append(acme, "get", "pvc", "state-db-0", "-o", "jsonpath={.spec.volumeName}")...)
		Expect(must(append(acme, "get", "pv", theirs, "-o", "yaml")...)).NotTo(Or(ContainSubstring(directory), ContainSubstring("tn-")))
		for _, volume := range []string{"of-spaces", theirs} {
			out, err := create(globex, "create", strings.NewReplacer("NAME", "stolen", "VOLUME", "volumeName: "+volume).Replace(claimOfAnother))
			Expect(err).To(HaveOccurred())
			Expect(out).To(And(ContainSubstring("forbidden: SpacePolicy"), ContainSubstring("spec.volumeName")))
		}
		must(append(acme, "delete", "statefulset/db", "--cascade=orphan")...)
		must(append(acme, "delete", "pod/db-0", "pvc/state-db-0", "--now")...)
		Expect(must("get", "pvc", "-A", "-l", "workloads.tenantry.io/installation", "-o", "name")).To(BeEmpty())
		Eventually(func() string { return must(append(acme, "get", "pv", "-o", "name")...) }).Should(BeEmpty())
		Eventually(func() string { return must("get", "pv", "of-spaces", "-o", "jsonpath={.status.phase}") }).Should(Equal("Released"), "its content is nobody else's")
	})
}
