//! Made-up names: the same ones for the same number, in several scripts' worth of letters.

/// Names to choose from.
pub(crate) struct Names {
    first_names: Vec<&'static str>,
    surnames: Vec<&'static str>,
}

impl Names {
    /// All of them.
    pub(crate) fn new() -> Self {
        Self {
            first_names: FIRST_NAMES.split(", ").collect(),
            surnames: SURNAMES.split(", ").collect(),
        }
    }

    /// The first name and surname of a made-up contact.
    pub(crate) fn of(&self, id: u32) -> (&'static str, &'static str) {
        let mixed = mix(u64::from(id));
        (pick(&self.first_names, mixed >> 32), pick(&self.surnames, mixed & 0xffff_ffff))
    }
}

fn pick(names: &[&'static str], number: u64) -> &'static str {
    let index = number % names.len() as u64;
    names[usize::try_from(index).expect("the index of a name is small")]
}

/// SplitMix64: neighbouring numbers come out unlike each other.
const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const FIRST_NAMES: &str = "\
    Ada, Aiko, Alejandro, Amara, Amélie, Anders, Anna, Arjun, Astrid, Ayşe, Beatriz, Benedikt, \
    Björn, Bronwyn, Carlos, Chiara, Chloé, Dmitri, Ebony, Eleni, Elif, Emeka, Emma, Fatima, \
    Felix, Finn, Freya, Giulia, Grace, Gustav, Hannah, Haruto, Hassan, Hugo, Ines, Ingrid, \
    Isaac, Ivan, Jamal, Jan, Joana, José, Jürgen, Kamala, Katarzyna, Kenji, Kwame, Lars, Leila, \
    Liam, Linnea, Lucía, Łukasz, Maria, Matteo, Mei, Miguel, Mila, Mohammed, Nadia, Ngozi, \
    Nikolai, Noah, Olga, Olivia, Omar, Óscar, Petra, Priya, Rafael, Ravi, Renée, Rosa, Saoirse, \
    Sara, Siobhán, Sofia, Søren, Tariq, Thandiwe, Tomás, Uma, Valentina, Victor, Wei, William, \
    Ximena, Yara, Yusuf, Zahra, Zoë, Zsófia";

const SURNAMES: &str = "\
    Abe, Adeyemi, Ahmed, Almeida, Andersson, Bauer, Becker, Bianchi, Brown, Çelik, Chen, Costa, \
    Dahl, Dubois, Eriksen, Fernández, Ferrari, Fischer, Fontaine, García, González, Green, \
    Gupta, Haddad, Hansen, Hashimoto, Hoang, Horváth, Ibrahim, Ivanova, Jansen, Jensen, \
    Johansson, Jones, Kamau, Kaya, Keller, Khan, Kim, Kowalska, Kumar, Laurent, Lee, Lindqvist, \
    López, Lopes, MacDonald, Martin, Mensah, Meyer, Moreau, Müller, Murphy, Nagy, Nakamura, \
    Nguyen, Nielsen, Novák, Nowak, O'Brien, Okafor, Olsen, Omondi, Öztürk, Papadopoulos, Park, \
    Patel, Pereira, Petrov, Popescu, Quinn, Ramírez, Rossi, Ryan, Sánchez, Santos, Sato, \
    Schmidt, Schneider, Silva, Singh, Smith, Sokolov, Sørensen, Suzuki, Svoboda, Tanaka, Taylor, \
    Tremblay, van der Berg, Virtanen, Wagner, Wang, Weber, Williams, Wójcik, Yamamoto, Yılmaz, \
    Zhang";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_names_are_the_same_each_time_and_spread_over_both_lists() {
        let names = Names::new();
        assert_eq!(names.of(7), ("Katarzyna", "Meyer"));
        let pairs: std::collections::HashSet<_> = (1..=1000).map(|id| names.of(id)).collect();
        assert!(pairs.len() > 900, "{}", pairs.len());
    }

    #[test]
    fn no_name_has_stray_spaces() {
        let names = Names::new();
        for name in names.first_names.iter().chain(&names.surnames) {
            assert_eq!(name.trim(), *name);
            assert!(!name.contains(','), "{name}");
        }
    }
}
