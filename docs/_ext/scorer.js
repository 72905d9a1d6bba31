/* The ranking of the site's search (html_search_scorer). Sphinx finds the pages with all words of a question, and ranks a
   page by its best word, so that most hits have the same score. Here a page is ranked by how many of the words are in
   its title, in one of its headings, or among the words of its `search:` comments; then by its section: a guide before a
   decision record. */
"use strict";

var Scorer = {
  // Sphinx's own weights, for hits on names of Python objects and on headings.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  sections: [
    [/^docs\/(how-to|runbooks|start|tutorials)\//, 4],
    [/^docs\/explanation\//, 3],
    [/^docs\/reference\/python/, -6],
    [/^docs\/reference\//, 2],
    [/^examples\//, 0],
    [/^docs\/decisions\//, -8],
    [/^(CHANGELOG|CONTRIBUTING|SECURITY|README|docs\/contributing|docs\/performance)/, -6],
  ],

  // The words of a text as Sphinx indexes them.
  stem: (text) => {
    const stemmer = new Stemmer();
    return splitQuery(text.toLowerCase())
      .filter((word) => !stopwords.has(word))
      .map((word) => stemmer.stemWord(word));
  },

  // The headings and the index entries of each page, read once for a question.
  pages: null,
  readPages: () => {
    const index = Search._index;
    const pages = index.titles.map((title) => ({ title: new Set(Scorer.stem(title)), headings: [], words: new Set() }));
    for (const [heading, places] of Object.entries(index.alltitles)) {
      const words = new Set(Scorer.stem(heading));
      for (const [file] of places) pages[file].headings.push(words);
    }
    for (const [entry, places] of Object.entries(index.indexentries))
      for (const word of Scorer.stem(entry)) for (const [file] of places) pages[file].words.add(word);
    return pages;
  },

  score: ([docname, title, anchor, descr, score, filename, kind]) => {
    const question = [...new Set(Scorer.stem(new URLSearchParams(window.location.search).get("q") || ""))];
    if (!question.length) return score;
    Scorer.pages = Scorer.pages || Scorer.readPages();
    const page = Scorer.pages[Search._index.docnames.indexOf(docname)];
    const share = (words) => question.filter((word) => words.has(word)).length / question.length;
    const heading = Math.max(0, ...page.headings.map((words) => share(new Set([...words, ...page.title]))));
    const known = new Set([...page.title, ...page.words, ...page.headings.flatMap((words) => [...words])]);
    const section = Scorer.sections.find(([pattern]) => pattern.test(docname));
    return Math.min(score, 15) / 3 + 8 * share(page.title) + 12 * heading + 12 * share(known) + (section ? section[1] : 0);
  },
};
