package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
)

// bashCompletion is where Debian's package bash-completion has what scripts for bash need.
const bashCompletion = "/usr/share/bash-completion/bash_completion"

var _ = Describe("The completion of searches", func() {
	It("knows what its user may list, as a plugin of kubectl and without kubectl", func(ctx SpecContext) {
		kubectl, err := gexec.Build("k8s.io/kubernetes/cmd/kubectl")
		Expect(err).NotTo(HaveOccurred())
		r := newReader(ctx, kubectl)
		for _, name := range []string{"kubectl-tenantry", "kubectl_complete-tenantry"} {
			Expect(os.Symlink(binary, filepath.Join(r.dir, "bin", name))).To(Succeed())
		}
		r.serve(ctx, "tenantry up --search", nil)
		r.must(tour)
		r.must(`kubectl --kubeconfig acme.kubeconfig create deployment web --image nginx --replicas 0
kubectl --kubeconfig acme.kubeconfig create secret generic web-login --from-literal password=secret
kubectl --kubeconfig acme.kubeconfig label secret web-login app=login
kubectl --kubeconfig acme.kubeconfig create role secret-lister --verb list --resource secrets
kubectl --kubeconfig acme.kubeconfig create rolebinding jane --role secret-lister --user jane
kubectl --kubeconfig globex.kubeconfig create configmap only-of-globex
tenantry kubeconfig acme --user jane > jane.kubeconfig`)

		// completes returns what a word is completed to, by kubectl and without it, which is the same.
		completes := func(user, words string) []string {
			GinkgoHelper()
			args := "find --kubeconfig " + user + ".kubeconfig " + words
			answers := map[string]string{}
			for _, command := range []string{"kubectl __complete tenantry ", "tenantry __complete "} {
				out, status := r.run(command + args + " 2>/dev/null") // in which it says what it does
				Expect(status).To(BeZero(), out)
				answers[command], _, _ = strings.Cut("\n"+out, "\n:")
			}
			Expect(answers["kubectl __complete tenantry "]).To(Equal(answers["tenantry __complete "]), words)
			return strings.Fields(answers["tenantry __complete "])
		}
		Eventually(func() []string { return completes("acme", "kind:Dep") }).WithContext(ctx).Should(Equal([]string{"kind:Deployment"}))
		Expect(completes("acme", "kind:Secret,Dep")).To(Equal([]string{"kind:Secret,Deployment"}))
		Expect(completes("acme", "kind:deployment name:")).To(Equal([]string{"name:web"}))
		Expect(completes("acme", "label:app=")).To(Equal([]string{"label:app=login", "label:app=web"}))
		Expect(completes("acme", "imag")).To(Equal([]string{"image:"}))
		Expect(completes("acme", "name:only")).To(BeEmpty(), "what another tenant has")
		Expect(completes("jane", "kind:")).To(Equal([]string{"kind:Secret"}))
		Expect(completes("jane", "name:")).To(Equal([]string{"name:web-login"}))
		Expect(completes("jane", "label:app=")).To(Equal([]string{"label:app=login"}))
		Expect(completes("jane", "imag")).To(BeEmpty(), "a property that nothing has of what the user may list")
		out, status := r.run("kubectl tenantry find --kubeconfig jane.kubeconfig -o name")
		Expect(status).To(BeZero(), out)
		Expect(strings.TrimSpace(out)).To(Equal("secrets/web-login"))
		r.must("kubectl --kubeconfig acme.kubeconfig delete rolebinding jane")
		Expect(completes("jane", "kind:")).To(BeEmpty(), "after the right has gone")

		if _, err := os.Stat(bashCompletion); err != nil {
			GinkgoWriter.Println("bash itself is not asked, because the package bash-completion is missing")
			return
		}
		for command, want := range map[string]string{
			"kubectl tenantry find --kubeconfig acme.kubeconfig kind:Dep": "Deployment", // bash has a word end at a colon
			"tenantry find --kubeconfig acme.kubeconfig kind:Dep":         "Deployment",
			"kubectl tenantry fin": "find",
		} {
			program, _, _ := strings.Cut(command, " ")
			script := r.command(ctx, "bash", "-c", `. `+bashCompletion+`; . <(`+program+` completion bash)
COMP_LINE=$1; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
IFS=' ' read -ra words <<< "$COMP_LINE"
COMP_WORDS=()
for word in "${words[@]}"; do
	case $word in
	*:*) COMP_WORDS+=("${word%%:*}" : "${word#*:}") ;;
	*) COMP_WORDS+=("$word") ;;
	esac
done
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
__start_`+program+`
printf '%s\n' "${COMPREPLY[@]}"`, "bash", command)
			script.Stderr = GinkgoWriter
			out, err := script.Output()
			Expect(err).NotTo(HaveOccurred(), command)
			Expect(strings.TrimSpace(string(out))).To(Equal(want), command)
		}
		_, err = exec.LookPath("bash")
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(pageTimeout))
})
